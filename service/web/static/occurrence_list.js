// When a schedule comes: in its zone and in UTC, with the nights on which clocks change.

import { h } from "./dom.js";
import { exact } from "./format.js";
import { t } from "./texts.js";
import { localElement, utcTime } from "./wall_time.js";

/** The table of an answer of `occurrences` or of a preview. */
export function occurrenceTable(found, caption) {
  if (!found.items.length) return h("p", { class: "empty" }, t("schedules.no_occurrence"));
  const rows = found.items.map((one, place) =>
    h(
      "tr",
      { class: one.dst ? "changes-clock" : null },
      h("th", { scope: "row", class: "num" }, exact(place + 1)),
      h("td", {}, h("span", { class: "wall" }, localElement(one.local)), one.dst ? clockChange(one.dst) : null),
      h("td", { class: "wall" }, utcTime(one.at)),
    ),
  );
  const heads = [
    ["num", t("schedules.nth")],
    [null, t("schedules.in_zone", { zone: found.zone })],
    [null, "UTC"],
  ];
  return h(
    "div",
    { class: "scroll occurrences", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heads.map(([cls, text]) => h("th", { scope: "col", class: cls }, text)))),
      h("tbody", {}, rows),
    ),
  );
}

function clockChange(dst) {
  return h("div", { class: "hint" }, h("span", { class: "tag warn" }, t(`schedules.dst_${dst}`)), " ", t(`schedules.dst_${dst}_note`));
}
