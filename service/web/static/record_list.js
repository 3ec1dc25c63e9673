// A list of records, each with fields of its own, to which others are added and from which some are taken.

import { h } from "./dom.js";
import { gathered, setAt } from "./form.js";
import { t } from "./texts.js";

/**
 * - `fields(place, record) → {element, read(), raw()}`: the fields of one, whose pointers hold its place;
 *   `raw()` is what they hold without their rules;
 * - `titleOf(place, record)`: what it is called; `additions`: `[{text, record()}]`, a button each; `most`: how many fit;
 * - `empty`, `full`: what is said where there is none, and where no more fit.
 * Answers `{element, read(), show(records)}`.
 */
export function recordList({ fields, titleOf, additions, most, empty = null, full = null }) {
  const place = h("div", { class: "records" });
  const buttons = additions.map(({ text, record }) => h("button", { type: "button", onclick: () => add(record()) }, text));
  const none = h("p", { class: "hint" }, empty);
  const all = h("p", { class: "hint" }, full);
  const element = h("div", {}, none, place, h("div", { class: "actions" }, buttons), all);
  let shown = [];

  const read = () => gathered(shown.map((one) => one.read));

  function show(records) {
    shown = records.map((record, at) => fields(at, record));
    place.replaceChildren(...shown.map((one, at) => cardOf(one, at, titleOf(at, records[at]))));
    none.hidden = empty === null || shown.length > 0;
    const isFull = shown.length >= most;
    all.hidden = full === null || !isFull;
    for (const button of buttons) button.disabled = isFull;
  }

  function cardOf(one, at, title) {
    const remove = h("button", { type: "button", class: "quiet", "aria-label": t("common.pair", { name: t("common.remove"), text: title }), onclick: () => take(at) }, t("common.remove"));
    return h("fieldset", { class: "record" }, h("legend", {}, title), remove, one.element);
  }

  function add(record) {
    // What cannot be read is told when the form is sent; here it stays as it is
    const kept = shown.map((one) => one.raw());
    show([...kept, record]);
    place.lastElementChild.querySelector("select, input, textarea").focus();
  }

  function take(at) {
    show(shown.map((one) => one.raw()).filter((_, other) => other !== at));
    (place.children[Math.min(at, shown.length - 1)]?.querySelector("button") ?? buttons[0]).focus();
  }

  return { element, read, show };
}

/** What is in the fields, without their rules; where one cannot be read, what it was before. */
export function rawOf(fields, tidied, before) {
  let found = before;
  for (const one of fields.fields) {
    try {
      found = setAt(found, one.pointer, one.value() ?? null);
    } catch {
      // It stays as it was.
    }
  }
  return tidied(found);
}
