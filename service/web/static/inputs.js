// The fields of a scenario: found by a word; the address holds it.

import { asked, onMoved, setAsked } from "./address.js";
import { byId, settled } from "./dom.js";
import { count } from "./format.js";
import { counted, language } from "./texts.js";

const filter = byId("filter");
const fields = [...document.querySelectorAll(".input")].map((element) => ({ element, text: plain(element.textContent) }));

/** Without accents, case and the places where a name may break. */
function plain(text) {
  return text.normalize("NFD").replace(/[\u0300-\u036f\u200b]/g, "").toLocaleLowerCase(language);
}

/** All words have to be there, in any order. */
function show() {
  const words = plain(filter.value).split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { element, text } of fields) {
    element.hidden = !words.every((word) => text.includes(word));
    if (!element.hidden) shown += 1;
  }
  for (const section of document.querySelectorAll(".inputs")) {
    section.hidden = !section.querySelector(".input:not([hidden])");
  }
  byId("none").hidden = shown > 0;
  byId("shown").textContent = counted("inputs.shown", shown, count(shown));
}

function readAddress() {
  filter.value = asked().get("find") ?? "";
  show();
}

/** What a link leads to is seen, whatever was looked for before. */
function showTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target?.closest("[hidden]")) return;
  filter.value = "";
  setAsked({ find: null });
  show();
  target.scrollIntoView();
}

filter.addEventListener("input", show);
filter.addEventListener("input", settled(() => setAsked({ find: filter.value.trim() }), 300));
addEventListener("hashchange", showTarget);
onMoved(readAddress);
readAddress();
showTarget();
