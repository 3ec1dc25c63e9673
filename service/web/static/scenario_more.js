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
