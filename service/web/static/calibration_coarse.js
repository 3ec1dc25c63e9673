// A coarse start from quantiles of step times: what they leave open, and readings to go on with.

import { ask } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { fieldset } from "./form.js";
import { hours, ms } from "./format.js";
import { described } from "./calibration_fields.js";
import { remarks, unknownTable } from "./calibration_remarks.js";
import { estimate, figureCard, interval, msText, share, simpleTable } from "./calibration_words.js";
import { simulatorLink } from "./scenario_link.js";
import { put } from "./scenario_state.js";
import { onSubmit } from "./submit.js";
import { named, t } from "./texts.js";

const FIELDS = [
  { pointer: "/num_gpus", words: "coarse_num_gpus", kind: "number", step: 1, min: 1, max: 10_000_000, required: true, absent: true },
  { pointer: "/step_p50_ms", kind: "number", step: "any", above: 0, required: true, unit: "ms", absent: true },
  { pointer: "/step_p95_ms", kind: "number", step: "any", above: 0, required: true, unit: "ms", absent: true },
  { pointer: "/load_ms", kind: "number", step: "any", min: 0, unit: "ms" },
  { pointer: "/communication_ms", words: "coarse_communication_ms", kind: "number", step: "any", min: 0, unit: "ms" },
  { pointer: "/gpus_per_node", words: "coarse_gpus_per_node", kind: "number", step: 1, min: 1, max: 1024 },
  { pointer: "/tensor_parallel_size", words: "coarse_tensor_parallel_size", kind: "number", step: 1, min: 1, max: 1024 },
  { pointer: "/period_days", kind: "number", step: 1, min: 1, max: 3660, unit: "days", absent: true },
];

export function coarseForm() {
  const form = byId("coarse-form");
  const place = byId("coarse");
  const fields = fieldset(FIELDS.map(described));
  fill(byId("coarse-fields"), fields.element);
  fields.show({ period_days: 30 });
  fields.onChange(() => fill(place));
  onSubmit(form, async () => {
    fill(place);
    const { data } = await ask("POST", "/v1/coarse-calibrations", { body: fields.read() });
    fill(place, resultOf(data));
  });
}

function resultOf(found) {
  const lost = found.gpu_hours_lost;
  const heads = [
    t("calibrations.head_reading"),
    { text: t("calibrations.head_cv"), num: true },
    { text: t("calibrations.head_compute_ms"), num: true },
    { text: t("calibrations.head_step_mean_ms"), num: true },
    { text: t("calibrations.head_gpu_hours_lost"), num: true },
    t("calibrations.head_actions"),
  ];
  const rows = found.readings.map((one) => [
    readingOf(one),
    share(one.cv),
    ms(one.compute_ms),
    ms(one.step_mean_ms),
    hours(one.gpu_hours_lost),
    h("a", { href: simulatorLink(withOverrides({}, one.overrides)) }, t("calibrations.to_simulator")),
  ]);
  return h(
    "div",
    { class: "result" },
    h(
      "div",
      { class: "cards" },
      figureCard(t("calibrations.lost_between"), interval(lost.low, lost.high, hours), t("calibrations.lost_between_hint")),
      figureCard(t("calibrations.cv_between"), interval(found.transient_cv.low, found.transient_cv.high, share), t("calibrations.cv_between_hint")),
      figureCard(t("calibrations.compute_ms"), estimate(found.compute_ms, msText), t("calibrations.compute_coarse_hint")),
    ),
    simpleTable(t("calibrations.readings"), heads, rows),
    remarks(found.warnings),
    found.unknown.length ? [h("h3", {}, t("calibrations.unknown")), unknownTable(found.unknown)] : null,
  );
}

/** Whose spread it is, and by which family. */
function readingOf({ hypothesis, overrides }) {
  const law = overrides[`variability.${hypothesis}`]?.kind;
  return [t(`calibrations.hypothesis_${hypothesis}`), law ? h("span", { class: "quiet" }, ` · ${named("scenario.law_", law)}`) : ""];
}

/** The scenario with the values of `overrides` at their paths. */
export function withOverrides(scenario, overrides) {
  const found = structuredClone(scenario);
  for (const [path, value] of Object.entries(overrides)) put(found, path, structuredClone(value));
  return found;
}
