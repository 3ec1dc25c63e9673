// Loss against the number of GPUs: what is expected, its range, a single draw, the scenario's own size.

import { frame, laterChart } from "./chart_parts.js";
import { drawChart } from "./charts.js";
import { fill, h } from "./dom.js";
import { count, hours, number, percent } from "./format.js";
import { t } from "./texts.js";

const TOO_LONG = "too_long_at_once";
// What is drawn: the field of a row and of its draw, how a value is written.
const MEASURES = {
  share: { field: "efficiency_fraction", shown: (value) => percent(value, 1), isShare: true },
  day: { field: "gpu_hours_lost_per_day", shown: hours },
  window: { field: "gpu_hours_lost", shown: hours, low: "gpu_hours_lost_p10", high: "gpu_hours_lost_p90" },
};

/**
 * Draw what `/v1/evaluations/curve` answered; `{update(the same), destroy()}`. `own`, beside its rows, is
 * the scenario's own number of GPUs, which is marked; `hasFailures`: GPUs fail, of which one drawn step
 * knows nothing; `isCoarse` and `isWithoutRange` tell what was not asked for.
 */
export function lossCurve(element, curve) {
  const parts = frame(element);
  const chart = laterChart(parts.place, "loss_curve", drawChart, () => parts.note(t("charts.not_drawn")));
  const choice = h("div", { class: "chart-switch", role: "group", "aria-label": t("charts.curve_switch") });
  element.prepend(choice);
  let measure = "share";
  let shown = curve;

  function choose(next) {
    measure = next;
    for (const button of choice.children) button.setAttribute("aria-pressed", String(button.value === next));
    show();
  }

  function show() {
    const { rows } = shown;
    const known = rows.filter((row) => row.failure === null || row.failure === undefined);
    parts.note(missing(shown));
    if (!known.length) {
      chart.hide();
      parts.legend([]);
      parts.values(null);
      return undefined;
    }
    const how = MEASURES[measure];
    const hasRange = how.low !== undefined && known.some((row) => isKnown(row[how.low]));
    parts.legend([
      { tone: "loss", text: t("charts.curve_expected") },
      ...(known.some((row) => isKnown(row.drawn?.[how.field])) ? [{ tone: "draw", text: t(shown.hasFailures ? "charts.curve_drawn_step" : "charts.curve_drawn") }] : []),
      ...(hasRange ? [{ tone: "range", text: t("charts.curve_range") }] : []),
    ]);
    parts.values(tableOf(known, shown.hasFailures));
    const [first, last] = [known[0], known[known.length - 1]];
    const description = t(`charts.curve_desc_${measure}`, {
      first: count(first.value),
      low: how.shown(first[how.field]),
      last: count(last.value),
      high: how.shown(last[how.field]),
    });
    return chart.show(drawing(known, shown.own, how), { title: t(`charts.curve_title_${measure}`), description });
  }

  function update(next) {
    shown = next;
    return show();
  }

  fill(
    choice,
    Object.keys(MEASURES).map((name) =>
      h("button", { type: "button", value: name, "aria-pressed": String(name === measure), onclick: () => choose(name) }, t(`charts.curve_${name}`)),
    ),
  );
  show();
  return { update, destroy: chart.destroy };
}

/** What the curve does not show, in sentences. */
function missing({ rows, isCoarse, isWithoutRange }) {
  const failed = rows.filter((row) => isKnown(row.failure));
  const long = failed.filter((row) => row.failure.code === TOO_LONG);
  const others = failed.length - long.length;
  return [
    isCoarse ? t("charts.curve_coarse") : "",
    isWithoutRange ? t("charts.curve_no_range") : "",
    long.length ? t("charts.curve_too_long", { sizes: long.map((row) => count(row.value)).join(" · ") }) : "",
    others ? t("charts.curve_failed", { count: count(others) }) : "",
  ]
    .filter(Boolean)
    .join(" ");
}

function isKnown(value) {
  return value !== null && value !== undefined;
}

function drawing(rows, own, how) {
  const points = rows.map((row) => ({ x: row.value, y: row[how.field], low: row[how.low], high: row[how.high] }));
  const draws = rows
    .filter((row) => isKnown(row.drawn?.[how.field]))
    .map((row) => ({ x: row.value, y: row.drawn[how.field] }));
  const powers = rows.filter((row) => Number.isInteger(Math.log2(row.value)));
  const ticks = (powers.length > 1 ? powers : rows).map((row) => ({ x: row.value, label: count(row.value) }));
  const isOnAxis = isKnown(own) && own >= rows[0].value && own <= rows[rows.length - 1].value;
  const known = [...points.flatMap((point) => [point.y, point.high]), ...draws.map((draw) => draw.y)].filter(isKnown);
  return {
    rows: points.filter((point) => isKnown(point.y)),
    draws,
    notes: isOnAxis ? [{ x: own, text: t("charts.curve_own", { gpus: count(own) }) }] : [],
    ticks,
    isLog: true,
    isShare: how.isShare === true,
    yLabels: how.isShare ? ["100 %"] : ["888.8", `${count(Math.max(0, ...known))}0`],
    tip: (index) => tipOf(rows.filter((row) => isKnown(row[how.field]))[index], how),
  };
}

function tipOf(row, how) {
  const key = how.isShare ? "charts.tip_efficiency" : "charts.some_gpu_hours";
  const said = (value) => t(key, { hours: how.shown(value), efficiency: how.shown(value) });
  const lines = [t("charts.some_gpus", { gpus: count(row.value) }), said(row[how.field])];
  if (isKnown(row.drawn?.[how.field])) lines.push(t("charts.tip_drawn", { value: said(row.drawn[how.field]) }));
  if (how.low && isKnown(row[how.low])) {
    lines.push(t("charts.tip_range", { low: hours(row[how.low]), high: hours(row[how.high]) }));
  }
  return lines.join("\n");
}

function tableOf(rows, hasFailures) {
  const heads = ["head_gpus", "head_efficiency", "head_day", "head_window", "head_drawn_efficiency", "head_drawn_day"];
  const own = (value, how) => (isKnown(value) ? how(value) : number(null));
  return {
    caption: t(hasFailures ? "charts.curve_table_step" : "charts.curve_table"),
    heads: heads.map((head, column) => ({ text: t(`charts.${head}`), num: column > 0 })),
    rows: () =>
      rows.map((row) => [
        count(row.value),
        own(row.efficiency_fraction, (value) => percent(value, 2)),
        own(row.gpu_hours_lost_per_day, hours),
        own(row.gpu_hours_lost, hours),
        own(row.drawn?.efficiency_fraction, (value) => percent(value, 2)),
        own(row.drawn?.gpu_hours_lost_per_day, hours),
      ]),
  };
}
