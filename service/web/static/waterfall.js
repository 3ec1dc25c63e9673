// Where the GPU-hours of a result go: held, each cause, what is left for useful compute.

import { frame, laterChart } from "./chart_parts.js";
import { drawChart } from "./charts.js";
import { hours } from "./format.js";
import { named, t } from "./texts.js";

const HELD = "gpu_hours_available";
const USEFUL = "gpu_hours_useful";
const NOMINAL = ["gpu_hours_communication", "gpu_hours_load"];
/** All that GPU-hours are lost to, as in service/model/results.py. */
export const CAUSES = [
  "gpu_hours_spares",
  "gpu_hours_backup_workers",
  "gpu_hours_failures",
  "gpu_hours_episodes",
  "gpu_hours_transient",
  "gpu_hours_spikes",
  "gpu_hours_replica",
  "gpu_hours_common",
  "gpu_hours_persistent",
  "gpu_hours_node",
  "gpu_hours_slow_groups",
  "gpu_hours_communication",
  "gpu_hours_load",
  "gpu_hours_extra_steps",
  "gpu_hours_pipeline_bubble",
  "gpu_hours_pipeline_imbalance",
  "gpu_hours_pipeline_p2p",
];
// A bar of less cannot be seen: such causes are in the table.
const LEAST_SHARE = 0.0005;

/** Draw the waterfall of a result document; `{update(result), destroy()}`. */
export function waterfall(element, result) {
  const parts = frame(element);
  const chart = laterChart(parts.place, "waterfall", drawChart, () => parts.note(t("charts.not_drawn")));

  function update(next) {
    const held = next[HELD];
    const causes = CAUSES.filter((column) => next[column]).sort((one, other) => next[other] - next[one]);
    if (!held || next[USEFUL] === null || !causes.length) {
      chart.hide();
      parts.legend([]);
      parts.values(null);
      parts.note(held && next[USEFUL] !== null ? t("charts.waterfall_nothing") : t("charts.waterfall_left_out"));
      return undefined;
    }
    const seen = causes.filter((column) => Math.abs(next[column]) >= LEAST_SHARE * held);
    const rows = [bar(causeName(HELD), 0, held, held, "held")];
    let left = held;
    for (const column of seen) {
      rows.push(bar(causeName(column), left, left - next[column], next[column], toneOf(column, next[column])));
      left -= next[column];
    }
    rows.push(bar(causeName(USEFUL), 0, next[USEFUL], next[USEFUL], "held"));
    parts.legend(legendOf(rows));
    parts.note(seen.length < causes.length ? t("charts.waterfall_small") : "");
    parts.values({
      caption: t("charts.waterfall_title"),
      heads: [{ text: t("charts.cause") }, { text: t("charts.gpu_hours"), num: true }],
      rows: () => [
        [causeName(HELD), hours(held)],
        ...causes.map((column) => [causeName(column), hours(next[column])]),
        [causeName(USEFUL), hours(next[USEFUL])],
      ],
    });
    const description = t("charts.waterfall_desc", {
      held: hours(held),
      useful: hours(next[USEFUL]),
      cause: causeName(causes[0]),
      hours: hours(next[causes[0]]),
    });
    return chart.show(rows, { title: t("charts.waterfall_title"), description });
  }

  update(result);
  return { update, destroy: chart.destroy };
}

/** The name of a cause by its column. */
export function causeName(column) {
  return named("scenario.cause_", column.replace(/^gpu_hours_/, ""));
}

function bar(label, start, end, value, tone) {
  return { label, start, end, text: hours(value), tone, tip: `${label}\n${t("charts.some_gpu_hours", { hours: hours(value) })}` };
}

function toneOf(column, value) {
  if (value < 0) return "gain";
  return NOMINAL.includes(column) ? "nominal" : "loss";
}

function legendOf(rows) {
  const tones = new Set(rows.map((row) => row.tone));
  return ["held", "nominal", "loss", "gain"]
    .filter((tone) => tones.has(tone))
    .map((tone) => ({ tone, text: t(`charts.legend_${tone}`) }));
}
