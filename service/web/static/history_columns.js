// The table of a history: each run, what it lost, and why that moved since the run before.

import { causesElement } from "./causes.js";
import { lookOf, relativeText } from "./compare_summary.js";
import { costElement } from "./costs.js";
import { h } from "./dom.js";
import { count, day, hours, momentElement, percent, signedHours } from "./format.js";
import { counted, t } from "./texts.js";
import { localElement } from "./wall_time.js";

/** For scenarios (`isTotal` false), or for totals of profiles and teams. */
export function historyColumns(isTotal) {
  return [
    { key: "when", label: t("compare.head_when"), head: true, cell: whenElement },
    ...(isTotal ? [{ key: "profile", label: t("compare.profile"), cell: (row) => row.profile ?? t("compare.whole") }] : scenarioColumns()),
    { key: "lost", label: t("compare.head_month"), num: true, cell: (row) => hours(row.gpu_hours_lost_per_30_days) },
    { key: "change", label: t("compare.difference"), num: true, cell: (row) => changeElement(row.change?.gpu_hours_lost_per_30_days) },
    { key: "cost", label: t("compare.head_money"), num: true, cell: (row) => costElement(row.cost_of_loss_per_30_days, row.cost_status) },
    { key: "cost_change", label: t("compare.cost_difference"), num: true, cell: (row) => moneyChange(row.change?.cost_of_loss_per_30_days, "difference") },
    { key: "volume", label: t("compare.cost_volume_effect"), num: true, cell: (row) => moneyChange(row.change?.cost_of_loss_per_30_days, "volume_effect") },
    { key: "price", label: t("compare.cost_price_effect"), num: true, cell: (row) => moneyChange(row.change?.cost_of_loss_per_30_days, "price_effect") },
    // Before what only describes a run: a narrower screen shows why it moved
    { key: "causes", label: t("compare.causes"), cell: (row) => whyElement(row.change) },
    ...(isTotal ? totalFacts() : scenarioFacts()),
    { key: "per_day", label: t("compare.head_day"), num: true, cell: (row) => hours(row.gpu_hours_lost_per_day) },
    { key: "batch", label: t("compare.head_batch"), cell: (row) => h("a", { href: `/batches/${row.batch_id}` }, row.batch_name) },
  ];
}

/** The slot in its own zone, as schedules and reports show it; of a batch by hand, when it was made. */
function whenElement(row) {
  const when = row.run ? localElement(row.run.local_time) : momentElement(row.batch_created_at);
  return h("a", { href: row.result_id ? `/results/${row.result_id}` : `/batches/${row.batch_id}` }, when);
}

function scenarioColumns() {
  return [
    { key: "scenario", label: t("compare.scenario"), cell: (row) => row.scenario },
    { key: "profile", label: t("compare.profile"), cell: (row) => (row.profile ? `${row.profile}@${row.profile_revision}` : t("compare.inline")) },
  ];
}

function scenarioFacts() {
  return [
    { key: "window", label: t("compare.head_window"), cell: (row) => counted("compare.window_of", row.period_days, count(row.period_days), { from: day(row.start_on) }) },
    { key: "gpus", label: t("compare.head_gpus"), num: true, cell: (row) => count(row.num_gpus) },
    { key: "efficiency", label: t("compare.head_efficiency"), num: true, cell: (row) => percent(row.efficiency_fraction) },
  ];
}

function totalFacts() {
  return [
    { key: "items", label: t("compare.head_items"), num: true, cell: (row) => count(row.items) },
    { key: "fraction", label: t("compare.head_fraction"), num: true, cell: (row) => percent(row.loss_fraction) },
  ];
}

function changeElement(change) {
  if (!change) return "";
  return h("span", { class: lookOf(change.difference), title: relativeText(change.relative) }, signedHours(change.difference));
}

function moneyChange(cost, part) {
  if (!cost) return "";
  return h("span", { class: lookOf(cost[part]) }, costElement(cost[part], cost.status, { signed: true }));
}

/** Causes where a report has told them; what is known without one else. */
function whyElement(change) {
  if (!change) return h("span", { class: "quiet" }, t("compare.first_run"));
  const marks = ["profile_revision_changed", "model_version_changed", "ideal_changed", "window_overlaps"]
    .filter((name) => change[name])
    .map((name) => h("span", { class: "tag" }, t(`compare.${name}_mark`)));
  const told = change.causes_status === "told";
  const causes = told ? causesElement(change.volume, change.rates) : h("span", { class: "quiet" }, t("compare.not_told"));
  return h("div", { class: "why" }, causes, marks.length ? h("div", { class: "marks" }, marks) : null);
}
