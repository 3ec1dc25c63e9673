// The figures that a reader looks for first: healthy spread, slow ranks by name, the gap to the median.

import { h } from "./dom.js";
import { count, ms, percent } from "./format.js";
import { estimate, figureCard, msText, ratio, share } from "./calibration_words.js";
import { counted, t } from "./texts.js";

// Ranks that are named before the others are counted
const NAMED = 4;

export function headlineCards(findings) {
  const { healthy, gaps, outliers } = findings;
  const slow = outliers.filter((one) => one.kind !== "fast");
  return [
    figureCard(
      t("calibrations.healthy_spread"),
      healthy.persistent_cv ? share(healthy.persistent_cv.value) : "–",
      [
        t("calibrations.healthy_spread_hint"),
        h("br"),
        t("calibrations.per_step"),
        " ",
        estimate(healthy.transient_cv, share),
      ],
    ),
    figureCard(
      t("calibrations.slow_ranks"),
      slow.length ? counted("calibrations.slow", slow.length, count(slow.length)) : t("calibrations.none_slow"),
      slow.length ? named(slow) : t("calibrations.none_slow_hint"),
      slow.length ? "worse" : "better",
    ),
    figureCard(
      t("calibrations.gap_figure"),
      ratio(gaps.slowest_to_median_mean_ratio.value),
      t("calibrations.gap_figure_hint", {
        ms: ms(gaps.slowest_to_median_mean_ms),
        rank: count(gaps.most_often_slowest_rank),
        share: percent(gaps.most_often_slowest_fraction, 0),
      }),
    ),
    figureCard(t("calibrations.compute_ms"), msText(findings.compute_ms.value), estimateHint(findings)),
  ];
}

function estimateHint({ compute_ms: compute, confidence }) {
  return [estimate(compute, msText), ` · ${t("calibrations.at_confidence", { confidence: percent(confidence, 0) })}`];
}

function named(slow) {
  const shown = slow.slice(0, NAMED).map((one) =>
    t(one.kind === "changed" ? "calibrations.slow_from" : "calibrations.slow_rank", {
      rank: count(one.rank),
      speed: percent(one.speed_fraction.value, 0),
      ...(one.kind === "changed" ? { from: count(one.from_step ?? 0), to: count(one.to_step ?? 0) } : {}),
    }),
  );
  const more = slow.length - shown.length;
  return more > 0 ? `${shown.join("; ")}; ${counted("calibrations.and_more", more, count(more))}` : shown.join("; ");
}
