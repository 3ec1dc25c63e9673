// What sections share: units, and the controls that most never need.

import { h } from "./dom.js";
import { t } from "./texts.js";

export const MS = t("scenario.unit_ms");

/** Controls that most never need. */
export function advanced(store, name, controls) {
  const box = h("details", { class: "more", "data-more": name }, h("summary", {}, t("scenario.advanced")), ...controls.map((one) => one.element));
  box.open = store.opened?.has(name) ?? false;
  box.addEventListener("toggle", () => {
    store.opened ??= new Set();
    if (box.open) store.opened.add(name);
    else store.opened.delete(name);
  });
  return { element: box, parts: controls };
}

/** A section of its own that is opened and closed; `.state` says in a line what it holds. */
export function folded(name, title, body) {
  const state = h("span", { class: "state" });
  const element = h(
    "details",
    { class: "section fold", "data-section": name },
    h("summary", {}, h("span", { class: "fold-title" }, title), state),
    h("div", { role: "group", "aria-label": title }, body),
  );
  return { element, state };
}
