// A sentence that is said on the next page: what was done on one that is left.

import { announce, byId, h } from "./dom.js";

const KEPT = "trainard-said";
// A page that has just come is read first
const AFTER_MS = 400;

/** Leave for another page, which says the sentence. */
export function leaveSaying(address, sentence) {
  try {
    sessionStorage.setItem(KEPT, sentence);
  } catch {
    // The page is left all the same.
  }
  location.assign(address);
}

/** Say what the page before has left to say: above the page, and to screen readers. */
export function sayCarried() {
  let sentence = null;
  try {
    sentence = sessionStorage.getItem(KEPT);
    sessionStorage.removeItem(KEPT);
  } catch {
    // Nothing was kept.
  }
  if (!sentence) return;
  const shown = h("p", { class: "done", tabindex: "-1" }, sentence);
  byId("main").prepend(shown);
  shown.focus();
  setTimeout(() => announce(sentence), AFTER_MS);
}
