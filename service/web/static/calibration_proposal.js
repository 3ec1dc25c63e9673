// The values that a calibration proposes, with their intervals and reasons; each may be taken or left.

import { h } from "./dom.js";
import { number } from "./format.js";
import { interval, said } from "./calibration_words.js";
import { pathLink } from "./input_links.js";
import { unitOf, valueText } from "./scenario_table.js";
import { t } from "./texts.js";

// More digits than this no calibration has; what is accepted has all of them
const DIGITS = 5;

/** A value, which may be a whole document, in words. */
function shownValue(value) {
  if (typeof value === "number" && !Number.isInteger(value)) return number(value, { maximumSignificantDigits: DIGITS });
  if (value !== null && typeof value === "object") {
    if (Array.isArray(value)) return value.map((one) => (one !== null && typeof one === "object" ? shownValue(one) : valueText(one))).join("; ") || t("profiles.nothing");
    return Object.entries(value)
      .filter(([, one]) => one !== null)
      .map(([name, one]) => `${name} ${shownValue(one)}`)
      .join(", ");
  }
  return valueText(value);
}

/** `{element, taken()}` where `isChoice`; else the table alone. */
export function proposalRows(proposal, { isChoice = false, changed = () => {} } = {}) {
  const boxes = new Map();
  const caption = t("calibrations.proposal_caption");
  const digits = (value) => number(value, { maximumSignificantDigits: 4 });
  const rows = proposal.values.map((one) => {
    let take = null;
    if (isChoice) {
      const box = h("input", { type: "checkbox", checked: true, "aria-label": t("calibrations.take", { path: one.path }), onchange: changed });
      boxes.set(one.path, box);
      take = h("td", {}, h("label", { class: "check" }, box));
    }
    const hasInterval = one.low !== null || one.high !== null;
    return h(
      "tr",
      {},
      take,
      h("th", { scope: "row" }, pathLink(one.path)),
      h("td", { class: "value" }, shownValue(one.value), " ", unitOf(one.path)),
      h("td", {}, hasInterval ? interval(one.low, one.high, digits) : "–"),
      h("td", {}, said(one.reason)),
    );
  });
  const heads = [...(isChoice ? ["head_take"] : []), "head_path", "head_value", "head_interval", "head_why"];
  const element = h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads.map((key) => h("th", { scope: "col" }, t(`calibrations.${key}`))))), h("tbody", {}, rows)),
  );
  if (!isChoice) return element;
  return { element, taken: () => [...boxes].filter(([, box]) => box.checked).map(([path]) => path) };
}
