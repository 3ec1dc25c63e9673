// The loss of a scenario over its runs, in GPU-hours and, where it has a price, in money.

import { frame, laterChart } from "./chart_parts.js";
import { drawChart } from "./charts.js";
import { h } from "./dom.js";
import { count, day, exactMoment, hours, moment, money, NOTHING } from "./format.js";
import { counted, t } from "./texts.js";
import { localTime } from "./wall_time.js";

/**
 * Draw rows of `/v1/loss-history` of one scenario, in any order; `{update(rows), destroy()}`. Runs in
 * which the model's version or the profile's revision changed are marked. `name` tells this chart from
 * others of the page.
 */
export function historyChart(element, rows, name = "") {
  const titled = (title) => [name, title].filter(Boolean).join(" · ");
  const parts = frame(element);
  const failed = () => parts.note(t("charts.not_drawn"));
  const volume = laterChart(parts.place, "history", drawChart, failed);
  const moneyHead = h("h3", { hidden: true });
  const moneyPlace = h("div", { class: "chart", hidden: true });
  parts.place.before(h("h3", {}, t("charts.history_hours")));
  parts.place.after(moneyHead, moneyPlace);
  const cost = laterChart(moneyPlace, "history", drawChart, failed);

  function update(given) {
    const runs = given.map((row) => ({ ...row, x: Date.parse(row.run?.scheduled_for ?? row.batch_created_at) }));
    runs.sort((one, other) => one.x - other.x);
    if (!runs.length) {
      volume.hide();
      cost.hide();
      moneyHead.hidden = true;
      parts.values(null);
      parts.note(t("charts.history_nothing"));
      return undefined;
    }
    parts.note(notesOf(runs).length ? t("charts.history_notes") : "");
    parts.values({ ...tableOf(runs), caption: titled(t("charts.history_title")) });
    const last = runs[runs.length - 1];
    const drawn = volume.show(drawing(runs, (run) => run.gpu_hours_lost_per_30_days), {
      title: titled(t("charts.history_title")),
      description: counted("charts.history_desc", runs.length, count(runs.length), {
        first: day(dayOf(runs[0])),
        last: day(dayOf(last)),
        hours: hours(last.gpu_hours_lost_per_30_days),
      }),
    });
    showMoney(runs);
    return drawn;
  }

  function showMoney(runs) {
    const priced = runs.filter((run) => run.cost_of_loss_per_30_days);
    moneyHead.hidden = priced.length === 0;
    if (!priced.length) return cost.hide();
    const last = priced[priced.length - 1].cost_of_loss_per_30_days;
    moneyHead.textContent = t("charts.history_money", { currency: last.currency });
    const amount = (run) => Number(run.cost_of_loss_per_30_days.amount);
    return cost.show(drawing(priced, amount), {
      title: titled(t("charts.history_money_title", { currency: last.currency })),
      description: counted("charts.history_money_desc", priced.length, count(priced.length), { cost: money(last) }),
    });
  }

  update(rows);
  return {
    update,
    destroy() {
      volume.destroy();
      cost.destroy();
    },
  };
}

/** The day of its slot in its schedule's zone, as the table has it; of another batch the reader's own. */
function dayOf(run) {
  if (run.run) return run.run.local_time.slice(0, 10);
  const made = new Date(run.x);
  return new Date(Date.UTC(made.getFullYear(), made.getMonth(), made.getDate())).toISOString().slice(0, 10);
}

/** A moment as the table writes it. */
function timeOf(run) {
  return run.run ? localTime(run.run.local_time) : moment(run.batch_created_at);
}

/** Days; moments where a day has several runs, with seconds where a minute has. */
function namesOf(runs) {
  const times = runs.map((run) => new Date(run.x).toISOString());
  const ways = [runs.map((run) => day(dayOf(run))), runs.map(timeOf), times.map(exactMoment)];
  return ways.find((names) => new Set(names).size === new Set(times).size) ?? ways.at(-1);
}

function ticksOf(runs) {
  const names = namesOf(runs);
  return runs.map((run, place) => ({ x: run.x, label: names[place] }));
}

function drawing(runs, value) {
  const names = namesOf(runs);
  return {
    rows: runs.map((run) => ({ x: run.x, y: value(run) })),
    notes: notesOf(runs),
    ticks: ticksOf(runs),
    // With room for a rounder end of the axis
    yLabels: [`${count(Math.max(...runs.map(value)))}0`],
    tip: (index) => tipOf(runs[index], names[index]),
  };
}

function notesOf(runs) {
  return runs.flatMap((run) => {
    const words = [];
    if (run.change?.model_version_changed) words.push(t("charts.note_model", { version: run.model_version }));
    if (run.change?.profile_revision_changed) words.push(t("charts.note_profile", { revision: run.profile_revision }));
    return words.length ? [{ x: run.x, text: words.join(" · ") }] : [];
  });
}

function tipOf(run, name) {
  const lines = [run.batch_name, name, t("charts.tip_month", { hours: hours(run.gpu_hours_lost_per_30_days) })];
  if (run.cost_of_loss_per_30_days) lines.push(t("charts.tip_money", { cost: money(run.cost_of_loss_per_30_days) }));
  return lines.join("\n");
}

function tableOf(runs) {
  const names = namesOf(runs);
  const heads = ["head_run", "head_batch", "head_profile_revision", "head_model", "head_month", "head_money_month"];
  return {
    heads: heads.map((head, column) => ({ text: t(`charts.${head}`), num: column > 3 })),
    rows: () =>
      runs.map((run, place) => [
        names[place],
        run.batch_name,
        run.profile_revision ?? NOTHING,
        run.model_version,
        hours(run.gpu_hours_lost_per_30_days),
        money(run.cost_of_loss_per_30_days),
      ]),
  };
}
