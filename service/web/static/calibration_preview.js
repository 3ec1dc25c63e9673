// What a check of timings found, before anything is stored.

import { h } from "./dom.js";
import { headlineCards } from "./calibration_headline.js";
import { remarks, unknownTable } from "./calibration_remarks.js";
import { proposalRows } from "./calibration_proposal.js";
import { t } from "./texts.js";

export function previewOf(found) {
  const { findings } = found;
  return h(
    "div",
    { class: "result", tabindex: "-1" },
    h("h3", {}, t("calibrations.preview", { name: found.name })),
    h("p", { class: "done" }, t("calibrations.preview_hint")),
    remarks(findings.warnings),
    h("div", { class: "cards" }, headlineCards(findings)),
    proposalRows(findings.proposal),
    findings.proposal.unknown.length ? unknownTable(findings.proposal.unknown) : null,
  );
}
