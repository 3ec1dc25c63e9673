// One back-test: what was observed, what was predicted, and which part would explain the difference.

import { h } from "./dom.js";
import { hours, ms, NOTHING, percent } from "./format.js";
import { offBy, testVerdict } from "./back_test_parts.js";
import { figureCard, msText, said, simpleTable } from "./calibration_words.js";
import { named, t } from "./texts.js";

export function backTestResult(found) {
  const { comparison, observed, predicted } = found;
  const chance = comparison.chance_low_ms === null ? t("calibrations.no_chance") : t("calibrations.chance", { low: ms(comparison.chance_low_ms), high: ms(comparison.chance_high_ms) });
  const parts = comparison.components.map((one) => [
    named("calibrations.part_", one.component),
    ms(one.predicted_ms),
    one.observed_ms === null ? NOTHING : ms(one.observed_ms),
    one.needed_ms === null ? NOTHING : ms(one.needed_ms),
  ]);
  const heads = ["head_part", "head_part_predicted", "head_part_observed", "head_needed_ms"].map((key, at) => (at ? { text: t(`calibrations.${key}`), num: true } : t(`calibrations.${key}`)));
  const { losses } = comparison;
  return h(
    "section",
    { class: "card", tabindex: "-1", "aria-labelledby": "one-test" },
    h("h2", { id: "one-test" }, `${found.run_name} · ${found.profile} `, testVerdict(found.verdict)),
    h(
      "div",
      { class: "cards" },
      figureCard(t("calibrations.head_observed_ms"), msText(observed.step_mean_ms), comparison.step_mean_se_ms === null ? t("calibrations.no_error") : t("calibrations.standard_error", { ms: ms(comparison.step_mean_se_ms) })),
      figureCard(t("calibrations.head_predicted_ms"), msText(predicted.step_mean_ms), chance),
      figureCard(t("calibrations.head_off"), offBy(comparison.ratio), t("calibrations.tolerated", { share: percent(found.tolerance_fraction, 1) })),
      figureCard(t("calibrations.lost_in_run"), `${hours(losses.observed_gpu_hours_lost)}`, t("calibrations.lost_predicted", { hours: hours(losses.predicted_gpu_hours_lost), all: hours(losses.gpu_hours) })),
    ),
    h("ul", {}, comparison.reasons.map((reason) => h("li", {}, said(reason)))),
    simpleTable(t("calibrations.parts_caption"), heads, parts),
    found.warnings.length ? h("ul", { class: "advice" }, found.warnings.map((one) => h("li", {}, said(one.detail)))) : null,
  );
}
