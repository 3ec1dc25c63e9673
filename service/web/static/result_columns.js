// The columns of a table of results: who, where on the grid, the outputs, and money.

import { headingOf, inputText, valueElement } from "./columns.js";
import { costElement } from "./costs.js";
import { h } from "./dom.js";
import { count, day } from "./format.js";
import { labelOf } from "./scenario_table.js";
import { t } from "./texts.js";

export const INPUT = "inputs.";

/** Which outputs belong together, by their names; the first that matches. */
const GROUPS = [
  ["remedies", /remedy|given_back/],
  ["pipeline", /pipeline|bubble|busy_gpus|microbatches/],
  ["spread", /_(p\d+|se|sd|cluster_mean)(_se|_ms)?$/],
  ["communication", /communication|overlap|bucket|collective|knee|exposed_load|break_even/],
  ["work", /total_steps|to_finish|1000_steps|checkpoint|failures_per_day/],
  ["losses", /^gpu_hours/],
  ["step", /_ms$|_fraction$/],
  ["how", /./],
];
const ORDER = ["step", "losses", "spread", "communication", "pipeline", "work", "remedies", "how"];

/** Columns of who and what a result is. */
export function factColumns({ isAcross }) {
  return [
    {
      key: "name",
      label: t("results.scenario"),
      head: true,
      cell: (row) => h("a", { href: `/results/${row.id}` }, row.name),
    },
    { key: "custom_id", label: t("results.custom_id"), cell: (row) => row.custom_id },
    { key: "profile", label: t("results.profile"), cell: (row) => row.profile ?? t("results.inline") },
    { key: "point", label: t("results.point"), num: true, sort: true, cell: (row) => count(row.point) },
    { key: "start_on", label: t("results.start_on"), cell: (row) => day(row.start_on) },
    { key: "model_version", label: t("results.model_version"), cell: (row) => row.model_version },
    { key: "seed", label: t("results.seed"), num: true, cell: (row) => String(row.seed) },
    ...(isAcross
      ? [{ key: "batch", label: t("results.batch"), cell: (row) => h("a", { href: `/batches/${row.batch_id}`, title: row.batch_id }, row.batch_name) }]
      : []),
  ];
}

export function inputColumn(path) {
  return {
    key: `${INPUT}${path}`,
    label: labelOf(path),
    hint: path,
    num: true,
    sort: path,
    cell: (row) => (path in row.inputs ? inputText(path, row.inputs[path]) : ""),
  };
}

export function sizeColumn() {
  return { ...inputColumn("num_gpus"), cell: (row) => count(row.num_gpus) };
}

export function outputColumn(column) {
  return {
    key: column.name,
    label: headingOf(column),
    sentence: column.sentence,
    hint: column.sentence,
    num: column.kind !== "enum" && column.kind !== "bool",
    sort: true,
    cell: (row) => valueElement(column, row.result[column.name]),
  };
}

/** Money sorts only where all that is listed is in one currency. */
export function costColumn(isSortable) {
  return {
    key: "cost_of_loss",
    label: t("results.cost_of_loss"),
    num: true,
    get sort() {
      return isSortable();
    },
    cell: (row) => costElement(row.cost_of_loss, row.cost_status, { unpriced: row.unpriced_days }),
  };
}

/** [{name, columns}] for the choice of columns. */
export function grouped(columns, outputs) {
  const known = new Set(outputs.map((column) => column.name));
  const groupOf = (key) => GROUPS.find(([, pattern]) => pattern.test(key))[0];
  const facts = columns.filter(({ key }) => !known.has(key) && !key.startsWith(INPUT) && key !== "cost_of_loss");
  const inputs = columns.filter(({ key }) => key.startsWith(INPUT));
  const money = columns.filter(({ key }) => key === "cost_of_loss");
  const named = (name, found) => ({ name: t(`results.group_${name}`), columns: found });
  return [
    named("facts", facts),
    named("inputs", inputs),
    ...ORDER.map((name) => named(name, columns.filter(({ key }) => known.has(key) && groupOf(key) === name))),
    named("money", money),
  ].filter((group) => group.columns.length);
}
