// How findings of a calibration are written: estimates with their intervals, paths, sentences of the API.

import { h } from "./dom.js";
import { ms, number, NOTHING, percent } from "./format.js";
import { language, named, t } from "./texts.js";

/** What the API says in English, marked as that on a page of another language; code between backticks as code. */
export function said(text) {
  const parts = text.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));
  return h("span", { lang: language === "en" ? null : "en" }, parts);
}

/** A coefficient of variation as a percentage of at least two significant digits. */
export function share(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value === 0) return percent(0, 0);
  const digits = Math.abs(value) < 0.001 ? 3 : Math.abs(value) < 0.1 ? 2 : 1;
  return percent(value, digits);
}

export function ratio(value) {
  return number(value, { minimumFractionDigits: 3, maximumFractionDigits: 3 });
}

/** "0.50% to 0.61%"; an open end is told as such; empty without any. */
export function interval(low, high, shown) {
  const isKnown = (end) => end !== null && end !== undefined;
  if (isKnown(low) && isKnown(high)) return t("calibrations.from_to", { low: shown(low), high: shown(high) });
  if (isKnown(low)) return t("calibrations.at_least", { low: shown(low) });
  if (isKnown(high)) return t("calibrations.at_most", { high: shown(high) });
  return t("calibrations.no_interval");
}

/** An estimate and its interval, the method in the tooltip; a dash where there is none. */
export function estimate(found, shown) {
  if (!found) return NOTHING;
  return h(
    "span",
    { class: "estimate", title: named("calibrations.method_", found.method) },
    h("strong", {}, shown(found.value)),
    " ",
    h("small", { class: "quiet" }, interval(found.low, found.high, shown)),
  );
}

export function msText(value) {
  return t("calibrations.some_ms", { ms: ms(value) });
}

/** A table in its region: `heads` are texts or `{text, num}`; cells are what `h` takes. */
export function simpleTable(caption, heads, rows) {
  const isNum = heads.map((head) => Boolean(head.num));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heads.map((head, at) => h("th", { scope: "col", class: isNum[at] ? "num" : null }, head.text ?? head)))),
      h(
        "tbody",
        {},
        rows.map((cells) =>
          h("tr", {}, cells.map((cell, at) => (at === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: isNum[at] ? "num" : null }, cell)))),
        ),
      ),
    ),
  );
}

/** A card of the headline: what, the figure, and what it says. */
export function figureCard(label, figure, hint, tone = "") {
  return h("div", { class: "card" }, h("p", { class: "label" }, label), h("p", { class: `big ${tone}` }, figure), h("p", { class: "hint" }, hint));
}
