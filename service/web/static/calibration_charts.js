// The pictures of a calibration: rank by rank, and the slowest against the median over the steps.

import { frame, laterChart } from "./chart_parts.js";
import { drawChart } from "./charts.js";
import { ms, NOTHING, count, percent } from "./format.js";
import { ratio, share } from "./calibration_words.js";
import { named, t } from "./texts.js";

// Bars that a reader can still take in
const MOST_BARS = 20;

function draw(parts, name, data, words) {
  return laterChart(parts.place, name, drawChart, () => parts.note(t("charts.not_drawn"))).show(data, words);
}

/** Ranks, the slowest first: how far each one's median is from that of all; outliers in another colour. */
export function rankChart(element, findings) {
  const { ranks, outliers } = findings;
  const parts = frame(element);
  const apart = new Map(outliers.map((one) => [one.rank, one]));
  const shown = chosen(ranks, apart);
  const rows = shown.map((row) => {
    const outlier = apart.get(row.rank);
    const text = t("calibrations.times_median", { ratio: ratio(row.to_median_ratio) });
    return {
      label: nameOf(row),
      start: 0,
      end: row.to_median_ratio - 1,
      text,
      tone: outlier ? (outlier.kind === "fast" ? "gain" : "loss") : "held",
      tip: [nameOf(row), text, t("calibrations.tip_median", { ms: ms(row.compute_median_ms) }), outlier ? named("calibrations.kind_", outlier.kind) : ""].filter(Boolean).join("\n"),
    };
  });
  parts.legend([
    { tone: "held", text: t("calibrations.legend_healthy") },
    ...(outliers.some((one) => one.kind !== "fast") ? [{ tone: "loss", text: t("calibrations.legend_slow") }] : []),
    ...(outliers.some((one) => one.kind === "fast") ? [{ tone: "gain", text: t("calibrations.legend_fast") }] : []),
  ]);
  parts.note(shown.length < ranks.length ? t("calibrations.some_ranks", { shown: count(shown.length), all: count(ranks.length) }) : "");
  parts.values({
    caption: t("calibrations.ranks"),
    heads: ["rank", "node", "stage", "median_ms", "to_median", "steps", "kind"].map((key, at) => ({ text: t(`calibrations.head_${key}`), num: at > 0 && at < 6 })),
    rows: () =>
      ranks.map((row) => [
        count(row.rank),
        row.node ?? NOTHING,
        row.stage ?? NOTHING,
        ms(row.compute_median_ms),
        ratio(row.to_median_ratio),
        count(row.num_steps),
        apart.has(row.rank) ? named("calibrations.kind_", apart.get(row.rank).kind) : "",
      ]),
  });
  const [slowest] = ranks;
  const description = slowest ? t("calibrations.ranks_desc", { ranks: count(ranks.length), rank: slowest.rank, ratio: ratio(slowest.to_median_ratio), outliers: count(outliers.length) }) : "";
  return draw(parts, "bars", rows, { title: t("calibrations.ranks"), description });
}

function nameOf(row) {
  const rank = t("calibrations.rank", { rank: count(row.rank) });
  return row.stage === null ? rank : `${rank} · ${t("scenario.stage", { number: row.stage })}`;
}

/** The slowest, all outliers as far as there is room, and the quickest. */
function chosen(ranks, apart) {
  if (ranks.length <= MOST_BARS) return ranks;
  const marked = ranks.filter((row) => apart.has(row.rank)).slice(0, MOST_BARS - 4);
  const others = ranks.filter((row) => !apart.has(row.rank));
  const room = MOST_BARS - marked.length;
  const kept = new Set([...marked, ...others.slice(0, room - 3), ...others.slice(-3)]);
  return ranks.filter((row) => kept.has(row));
}

/** Step by step, how much longer the slowest rank took than the median one. */
export function gapChart(element, findings) {
  const { steps } = findings.gaps;
  const parts = frame(element);
  const changed = findings.outliers.filter((one) => one.kind === "changed" && one.from_step !== null);
  const notes = changed.slice(0, 3).map((one) => ({ x: one.from_step, text: t("calibrations.changed_from", { rank: one.rank }) }));
  const values = steps.map((step) => step.slowest_to_median_ratio - 1);
  const most = Math.max(...values, 0.001);
  const data = {
    rows: steps.map((step, at) => ({ x: step.step, y: values[at] })),
    notes,
    ticks: ticksOf(steps),
    yFormat: most < 0.05 ? ".1~%" : ".0%",
    yLabels: [percent(most * 1.25, most < 0.05 ? 1 : 0)],
    tip: (index) => {
      const step = steps[index];
      return [
        t("calibrations.step", { step: count(step.step) }),
        t("calibrations.tip_slowest", { rank: count(step.slowest_rank), ms: ms(step.slowest_ms) }),
        t("calibrations.tip_step_median", { ms: ms(step.median_ms) }),
        t("calibrations.tip_longer", { share: share(values[index]) }),
      ].join("\n");
    },
  };
  parts.note(findings.source.num_steps > steps.length ? t("calibrations.some_steps", { shown: count(steps.length), all: count(findings.source.num_steps) }) : "");
  parts.values({
    caption: t("calibrations.gaps"),
    heads: ["step", "slowest_rank", "slowest_ms", "median_ms", "to_median"].map((key, at) => ({ text: t(`calibrations.head_${key}`), num: at > 0 })),
    rows: () => steps.map((step) => [count(step.step), count(step.slowest_rank), ms(step.slowest_ms), ms(step.median_ms), ratio(step.slowest_to_median_ratio)]),
  });
  const description = t("calibrations.gaps_desc", { steps: count(steps.length), most: share(most) });
  return draw(parts, "history", data, { title: t("calibrations.gaps_title"), description });
}

function ticksOf(steps) {
  const every = Math.max(1, Math.floor(steps.length / 8));
  return steps.filter((_, at) => at % every === 0 || at === steps.length - 1).map((step) => ({ x: step.step, label: count(step.step) }));
}

/** E(max/mean) of steps that were not fitted to: observed, and as two models predict it. */
export function heldOutChart(element, heldOut) {
  const parts = frame(element);
  const observed = heldOut.observed_max_to_mean_ratio;
  const row = (key, value, tone, more = {}) => ({ label: t(`calibrations.${key}`), start: 0, end: value - 1, text: t("calibrations.times_mean", { ratio: ratio(value) }), tone, ...more });
  const rows = [
    row("observed", observed.value, "held", observed.low === null || observed.high === null ? {} : { low: observed.low - 1, high: observed.high - 1 }),
    row("predicted", heldOut.predicted_max_to_mean_ratio, "new"),
    row("independent_normal", heldOut.independent_normal_max_to_mean_ratio, "past"),
  ];
  parts.values({
    caption: t("calibrations.held_out_title"),
    heads: [{ text: t("calibrations.head_what") }, { text: t("calibrations.head_max_to_mean"), num: true }],
    rows: () => rows.map((one) => [one.label, one.text]),
  });
  const description = rows.map((one) => `${one.label}: ${one.text}`).join("; ");
  return draw(parts, "bars", rows, { title: t("calibrations.held_out_title"), description });
}
