// One step of a pipeline, a row a stage: operations with their micro-batches, gaps are bubbles.
//
// More operations than can be seen are shown a part of the time at once, chosen by a slider.

import { frame, laterChart } from "./chart_parts.js";
import { textWidth } from "./chart_rooms.js";
import { drawChart } from "./charts.js";
import { h } from "./dom.js";
import { count, ms, percent } from "./format.js";
import { named, t } from "./texts.js";

const TONES = {
  load: "nominal",
  pass: "past",
  wait: "loss",
  exchange: "exchange",
  forward: "held",
  backward: "backward",
  backward_input: "backward",
  backward_weight: "weight",
  forward_backward: "pair",
};
const MOST_OPERATIONS = 2500;
const MOST_NAMES = 600;
const NARROW = 520;
const FONT = 11;
let numbered = 0;

/** Draw what `/v1/evaluations/timeline` answered; `{update(timeline), destroy()}`. */
export function pipelineTimeline(element, timeline) {
  const parts = frame(element);
  const chart = laterChart(parts.place, "pipeline_timeline", drawChart, () => parts.note(t("charts.not_drawn")));
  const slider = windowSlider(() => show());
  parts.place.before(slider.element);
  let shown = null;

  function show() {
    const { timeline: now, rows, total, end } = shown;
    const part = slider.part(total, end);
    const title = t("charts.pipeline_title", { replica: now.replica });
    const slowest = slowestStage(now);
    const description = t("charts.pipeline_desc", {
      stages: count(now.num_stages),
      microbatches: count(now.microbatches),
      schedule: now.schedule,
      makespan: ms(now.makespan_ms),
      bubble: percent(now.bubble_fraction, 1),
      slowest: slowest.stage,
    });
    return chart.show((width) => drawing(rows, now, part, end, width), { title, description });
  }

  function update(next) {
    const rows = rowsOf(next);
    const total = rows.reduce((sum, row) => sum + row.segments.length, 0);
    const end = Math.max(...next.phases.map((phase) => phase.end_ms), ...rows.flatMap((row) => lastEnd(row)));
    shown = { timeline: next, rows, total, end };
    const kinds = new Set(rows.flatMap((row) => row.segments.map((one) => one.kind)));
    const legend = Object.keys(TONES)
      .filter((kind) => kinds.has(kind) && !(kind === "backward_input" && kinds.has("backward")))
      .map((kind) => ({ tone: TONES[kind], text: t(`charts.kind_${kind}`) }));
    parts.legend([...legend, { tone: "gap", text: t("charts.kind_idle") }]);
    parts.note(total > MOST_OPERATIONS ? t("charts.pipeline_part", { all: count(total) }) : "");
    parts.values(tableOf(next));
    return show();
  }

  update(timeline);
  return { update, destroy: chart.destroy };
}

function rowsOf(timeline) {
  const step = {
    label: t("charts.step"),
    text: timeline.step_ms === null ? "" : t("charts.some_ms", { ms: ms(timeline.step_ms) }),
    segments: timeline.phases.map((phase) => ({ ...spanOf(phase), name: "", told: named("charts.kind_", phase.kind) })),
  };
  const slowest = slowestStage(timeline);
  const stages = timeline.stages.map((stage) => {
    const isMarked = stage === slowest.marked;
    const name = t("charts.stage", { stage: stage.stage });
    return {
      label: isMarked ? `▸ ${name}` : name,
      text: t("charts.stage_text", { idle: ms(stage.idle_ms) }),
      short: t("charts.some_ms", { ms: ms(stage.idle_ms) }),
      isMarked,
      segments: stage.operations.map((one) => ({ ...spanOf(one), name: nameOf(one), told: toldOf(one) })),
    };
  });
  return [step, ...stages];
}

/** The stage that works longest; marked unless all work as long. */
function slowestStage(timeline) {
  const found = timeline.stages.reduce((most, stage) => (stage.busy_ms > most.busy_ms ? stage : most));
  const isUneven = timeline.stages.some((stage) => stage.busy_ms < found.busy_ms * (1 - 1e-9));
  return { stage: found.stage, marked: isUneven ? found : null };
}

function spanOf({ kind, start_ms, end_ms }) {
  return { kind, start: start_ms, end: end_ms };
}

function lastEnd(row) {
  return row.segments.length ? [row.segments[row.segments.length - 1].end] : [];
}

function nameOf(operation) {
  const second = operation.backward_microbatch;
  return second === null ? String(operation.microbatch) : `${operation.microbatch}·${second}`;
}

function toldOf(operation) {
  const kind = t(`charts.kind_${operation.kind}`);
  if (operation.backward_microbatch !== null) {
    return t("charts.tip_pair", { kind, forward: operation.microbatch, backward: operation.backward_microbatch });
  }
  return t("charts.tip_operation", { kind, microbatch: operation.microbatch, chunk: operation.chunk });
}

function drawing(rows, timeline, part, end, width) {
  const isNarrow = width < NARROW;
  const rowHeight = rows.length <= 17 ? 24 : rows.length <= 65 ? 16 : Math.max(6, 640 / rows.length);
  const plot = Math.max(60, width - (isNarrow ? 150 : 210));
  const pxPerMs = plot / (part.end - part.begin);
  const segments = [];
  const names = [];
  rows.forEach((row, place) => {
    row.segments.forEach((one, index) => {
      if (one.end <= part.begin || one.start >= part.end) return;
      const start = Math.max(one.start, part.begin);
      const until = Math.min(one.end, part.end);
      const key = `${place}.${index}`;
      segments.push({ row: place, kind: one.kind, start, end: until, key, one });
      const hasRoom = rowHeight >= 14 && one.name && (until - start) * pxPerMs > textWidth(one.name, FONT) + 4;
      if (hasRoom && names.length < MOST_NAMES) names.push({ row: place, middle: (start + until) / 2, name: one.name, key });
    });
  });
  const labels = rows.map((row, place) => ({
    row: place,
    label: rowHeight >= 10 || row.isMarked || place === 0 ? row.label : "",
    text: rowHeight < 10 ? "" : isNarrow ? (row.short ?? "") : row.text,
    is_marked: row.isMarked === true,
  }));
  const marked = labels.filter((row) => row.is_marked).map(({ row }) => ({ row, start: part.begin, end: part.end }));
  const bare = segments.map(({ row, kind, start, end: until, key }) => ({ row, kind, start, end: until, key }));
  return {
    numRows: rows.length,
    rowHeight,
    begin: part.begin,
    end: part.end,
    rows: labels,
    segments: bare,
    marked,
    names,
    bySegment: true,
    tip: (index) => tipOf(segments[index], rows),
  };
}

function tipOf({ row, one }, rows) {
  const span = t("charts.tip_span", { start: ms(one.start), end: ms(one.end) });
  return [one.told, rows[row].label.replace("▸ ", ""), span].join("\n");
}

function tableOf(timeline) {
  const heads = ["head_stage", "head_factor", "head_busy", "head_idle", "head_flight", "head_slowest_gpu"];
  return {
    caption: t("charts.pipeline_title", { replica: timeline.replica }),
    heads: heads.map((head, column) => ({ text: t(`charts.${head}`), num: column > 0 })),
    rows: () =>
      timeline.stages.map((stage) => [
        t("charts.stage", { stage: stage.stage }),
        ms(stage.factor),
        ms(stage.busy_ms),
        ms(stage.idle_ms),
        count(stage.peak_microbatches_in_flight),
        t("charts.gpu", { gpu: stage.slowest_gpu }),
      ]),
  };
}

/** Which part of the time is shown, where all of it has too many operations. */
function windowSlider(changed) {
  const id = `chart-window-${(numbered += 1)}`;
  const input = h("input", { type: "range", id, min: "0", max: "100", step: "1", value: "0", oninput: changed });
  const element = h("div", { class: "field", hidden: true }, h("label", { for: id }, t("charts.pipeline_window")), input);
  return {
    element,
    part(total, end) {
      const share = Math.min(1, MOST_OPERATIONS / total);
      element.hidden = share === 1;
      if (share === 1) return { begin: 0, end };
      const begin = (Number(input.value) / 100) * end * (1 - share);
      const part = { begin, end: begin + end * share };
      input.setAttribute("aria-valuetext", t("charts.tip_span", { start: ms(part.begin), end: ms(part.end) }));
      return part;
    },
  };
}
