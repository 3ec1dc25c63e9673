// An overlap audit: the verdict, the interval of the hidden share, why, and what would settle it.

import { h } from "./dom.js";
import { msText, said, estimate, share } from "./calibration_words.js";
import { frame, laterChart } from "./chart_parts.js";
import { drawChart } from "./charts.js";
import { number, percent } from "./format.js";
import { named, t } from "./texts.js";

const TONES = { overlaps: "good", does_not_overlap: "bad", cannot_tell: "warn" };

export function verdictTag(verdict) {
  return verdict ? h("span", { class: `tag ${TONES[verdict]}` }, t(`calibrations.overlap_${verdict}`)) : "–";
}

/** The audit in `place`; null where there was nothing to audit. */
export function overlapAudit(audit) {
  if (!audit) return h("p", { class: "quiet" }, t("calibrations.no_overlap_audit"));
  const { hidden_share: hidden } = audit;
  const chart = h("div", {});
  const sentence = t(`calibrations.overlap_${audit.verdict}_sentence`, { low: percent(hidden.low, 0), high: percent(hidden.high, 0) });
  const element = h(
    "div",
    { class: "audit" },
    h("p", {}, verdictTag(audit.verdict), " ", h("strong", {}, sentence)),
    h("p", { class: "hint" }, t("calibrations.route", { route: named("calibrations.route_", audit.route) })),
    chart,
    h("dl", { class: "facts" }, factsOf(audit).flatMap(([key, value]) => [h("dt", {}, t(`calibrations.${key}`)), h("dd", {}, value)])),
    audit.reasons.length ? [h("h3", {}, t("calibrations.reasons")), h("ul", {}, audit.reasons.map((reason) => h("li", {}, said(reason))))] : null,
    audit.experiments.length ? experimentsOf(audit.experiments) : null,
  );
  drawHidden(chart, hidden, sentence);
  return element;
}

function factsOf(audit) {
  return [
    ["communication_ms", audit.communication_ms && estimate(audit.communication_ms, msText)],
    ["exposed_ms", audit.exposed_ms && estimate(audit.exposed_ms, msText)],
    ["wait_ms", audit.wait_ms && estimate(audit.wait_ms, msText)],
    ["num_collectives", audit.num_collectives_per_step === null ? null : number(audit.num_collectives_per_step, { maximumFractionDigits: 1 })],
  ].filter(([, value]) => value !== null && value !== undefined);
}

function experimentsOf(experiments) {
  return [
    h("h3", {}, t("calibrations.experiments")),
    h(
      "ol",
      { class: "experiments" },
      experiments.map((one) =>
        h("li", {}, h("strong", {}, named("calibrations.experiment_", one.name)), h("p", {}, said(one.what_to_do)), h("p", { class: "hint" }, said(one.what_it_tells))),
      ),
    ),
  ];
}

/** The interval from its low to its high end, of all communication; the naive ratio below it. */
function drawHidden(element, hidden, sentence) {
  const parts = frame(element);
  const rows = [
    {
      label: t("calibrations.hidden_share"),
      start: hidden.low,
      // What is known exactly is a line of its own
      end: Math.max(hidden.high, hidden.low + 0.004),
      text: t("calibrations.from_to", { low: percent(hidden.low, 1), high: percent(hidden.high, 1) }),
      tone: "held",
    },
    ...(hidden.naive_ratio === null
      ? []
      : [{ label: t("calibrations.naive_ratio"), start: 0, end: hidden.naive_ratio, text: percent(hidden.naive_ratio, 1), tone: "past" }]),
    { label: t("calibrations.all_communication"), start: 0, end: 1, text: share(1), tone: "nominal" },
  ];
  const chart = laterChart(parts.place, "bars", drawChart, () => parts.note(t("charts.not_drawn")));
  parts.values({
    caption: t("calibrations.hidden_share"),
    heads: [{ text: t("calibrations.head_what") }, { text: t("calibrations.head_share"), num: true }],
    rows: () => rows.map((row) => [row.label, row.text]),
  });
  if (hidden.naive_ratio !== null) parts.note(t("calibrations.naive_hint"));
  chart.show(rows, { title: t("calibrations.hidden_share"), description: sentence });
}
