// One drawn step, a row a GPU: loading, compute, waiting for the slowest, exchange of gradients.

import { frame, laterChart } from "./chart_parts.js";
import { drawChart } from "./charts.js";
import { count, ms, percent } from "./format.js";
import { t } from "./texts.js";

const KINDS = { load: "nominal", compute: "held", wait: "loss", exchange: "exchange" };
// Rows of so many GPUs are so high; of more, all of them share HEIGHT.
const ROW_HEIGHTS = [[24, 24], [64, 17], [160, 13]];
const HEIGHT = 560;
const NARROW = 520;

/**
 * Draw `ranks` of an evaluation: `gpuTimeline(element, {result, ranks, scenario})`, which answers
 * `{update(the same), destroy()}`. `ranks` may be null: the sentence says so.
 */
export function gpuTimeline(element, shown) {
  const parts = frame(element);
  const chart = laterChart(parts.place, "gpu_timeline", drawChart, () => parts.note(t("charts.not_drawn")));

  function update({ result, ranks }) {
    const gpus = ranks?.ranks ?? [];
    if (!gpus.length) {
      chart.hide();
      parts.legend([]);
      parts.values(null);
      parts.note(t("charts.gpu_nothing"));
      return undefined;
    }
    const step = stepOf(result, ranks);
    const kinds = Object.keys(KINDS).filter((kind) => step.kinds.has(kind));
    parts.legend(kinds.map((kind) => ({ tone: KINDS[kind], text: t(`charts.kind_${kind}`) })));
    parts.note(noteOf(ranks));
    parts.values(tableOf(ranks));
    const slowest = gpus[0];
    const description = t(step.isUneven ? "charts.gpu_desc" : "charts.gpu_desc_even", {
      shown: count(gpus.length),
      all: count(ranks.num_ranks),
      gpu: slowest.rank,
      speed: percent(slowest.speed_fraction, 0),
      compute: ms(slowest.compute_ms),
      median: ms(ranks.median_compute_ms),
    });
    return chart.show((width) => drawing(ranks, step, width), { title: t("charts.gpu_title"), description });
  }

  update(shown);
  return { update, destroy: chart.destroy };
}

/**
 * When what begins: loading ends at `loaded`, everybody has computed at `barrier`, the step is over at
 * `end`. Without a barrier in every step a step has no end that all share.
 */
function stepOf(result, ranks) {
  const loaded = result?.exposed_load_ms ?? 0;
  const barrier = loaded + (ranks.slowest_makespan_ms ?? ranks.slowest_compute_ms);
  const longest = ranks.ranks.reduce((most, gpu) => Math.max(most, loaded + gpu.compute_ms), barrier);
  const end = Math.max(ranks.step_ms ?? 0, longest);
  const first = ranks.ranks[0];
  const isSlower = (compute) => compute < first.compute_ms * (1 - 1e-9);
  const isUneven = isSlower(ranks.median_compute_ms) || ranks.ranks.some((gpu) => isSlower(gpu.compute_ms));
  const kinds = new Set(["compute"]);
  if (loaded > 0) kinds.add("load");
  if (ranks.step_ms !== null && ranks.ranks.some((gpu) => gpu.wait_ms > 0)) kinds.add("wait");
  if (ranks.step_ms !== null && end > barrier * (1 + 1e-9)) kinds.add("exchange");
  return { loaded, barrier, end, kinds, isUneven };
}

function drawing(ranks, step, width) {
  const gpus = ranks.ranks;
  const rowHeight = ROW_HEIGHTS.find(([most]) => gpus.length <= most)?.[1] ?? HEIGHT / gpus.length;
  const isThin = gpus.length > ROW_HEIGHTS.at(-1)[0];
  const segments = [];
  const rows = [];
  gpus.forEach((gpu, row) => {
    const computed = step.loaded + gpu.compute_ms;
    const waited = step.kinds.has("wait") ? computed + gpu.wait_ms : computed;
    segments.push(
      { row, kind: "load", start: 0, end: step.loaded, key: `${row}l` },
      { row, kind: "compute", start: step.loaded, end: computed, key: `${row}c` },
      { row, kind: "wait", start: computed, end: waited, key: `${row}w` },
    );
    if (step.kinds.has("exchange")) {
      segments.push({ row, kind: "exchange", start: Math.max(waited, step.barrier), end: step.end, key: `${row}e` });
    }
    if (!isThin || row === 0 || row === gpus.length - 1) rows.push(labelled(gpu, row, step, width));
  });
  const marked = step.isUneven ? [{ row: 0, start: 0, end: step.end }] : [];
  return { numRows: gpus.length, rowHeight, end: step.end, rows, segments, marked, tip: (row) => tipOf(gpus[row], row, step) };
}

function labelled(gpu, row, step, width) {
  const isMarked = row === 0 && step.isUneven;
  const name = t("charts.gpu", { gpu: gpu.rank });
  const values = { speed: percent(gpu.speed_fraction, 0), wait: ms(gpu.wait_ms) };
  const text = width < NARROW || !step.kinds.has("wait") ? values.speed : t("charts.gpu_text", values);
  return { row, label: isMarked ? `▸ ${name}` : name, text, is_marked: isMarked };
}

function tipOf(gpu, row, step) {
  const name = t("charts.gpu", { gpu: gpu.rank });
  const lines = [
    row === 0 && step.isUneven ? t("charts.gpu_slowest", { name }) : name,
    t("charts.tip_speed", { speed: percent(gpu.speed_fraction, 1) }),
    t("charts.tip_compute", { ms: ms(gpu.compute_ms) }),
  ];
  if (step.kinds.has("wait")) lines.push(t("charts.tip_wait", { ms: ms(gpu.wait_ms) }));
  return lines.join("\n");
}

function noteOf(ranks) {
  const sentences = [];
  if (ranks.num_left_out > 0) {
    sentences.push(t("charts.gpu_left_out", { shown: count(ranks.ranks.length), all: count(ranks.num_ranks) }));
  }
  if (ranks.step_ms === null) sentences.push(t("charts.gpu_no_barrier"));
  if (ranks.slowest_replica !== null) sentences.push(t("charts.gpu_pipeline"));
  return sentences.join(" ");
}

function tableOf(ranks) {
  return {
    caption: t("charts.gpu_title"),
    heads: [
      { text: t("charts.head_gpu") },
      { text: t("charts.head_speed"), num: true },
      { text: t("charts.head_compute"), num: true },
      { text: t("charts.head_wait"), num: true },
    ],
    rows: () =>
      ranks.ranks.map((gpu) => [
        t("charts.gpu", { gpu: gpu.rank }),
        percent(gpu.speed_fraction, 1),
        ms(gpu.compute_ms),
        ms(gpu.wait_ms),
      ]),
  };
}
