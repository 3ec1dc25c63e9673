// The differences of a comparison: the columns of their table, and the pairs that are drawn.

import { causesElement } from "./causes.js";
import { inputText, valueOf } from "./columns.js";
import { lookOf, relativeText } from "./compare_summary.js";
import { costElement } from "./costs.js";
import { h } from "./dom.js";
import { NOTHING, percent, number, signedHours } from "./format.js";
import { labelOf } from "./scenario_table.js";
import { t } from "./texts.js";

const KEYS = new Set(["name", "profile"]);
const DRAWN = 10;

/** Axes of the rows: what is in their keys beside name and profile. */
export function axesOf(items) {
  return [...new Set(items.flatMap((row) => Object.keys(row.key)))].filter((name) => !KEYS.has(name));
}

/** Columns for the figure `column`; `sides` are the ids of the two batches. */
export function differenceColumns({ column, axes, causes, sortsMoney, sides }) {
  const name = column.name;
  const cell = (side, text) => ({
    key: side,
    label: t(`compare.${side}`),
    num: true,
    sort: `${side}.${name}`,
    cell: (row) => text(row[side][name], row),
  });
  const money = (part, options) => ({
    key: `cost_${part}`,
    label: t(`compare.cost_${part}`),
    num: true,
    sort: sortsMoney && part === "difference" ? "difference.cost_of_loss" : null,
    cell: (row) => {
      const amount = row.cost_of_loss[part];
      return h("span", { class: options.signed ? lookOf(amount) : null }, costElement(amount, row.cost_of_loss[`${part}_status`] ?? row.cost_of_loss.status, options));
    },
  });
  return [
    {
      key: "name",
      label: t("compare.scenario"),
      head: true,
      cell: (row) => h("a", { href: `/results/${sides.candidate}.${row.new_point}` }, row.key.name),
    },
    { key: "profile", label: t("compare.profile"), cell: (row) => row.key.profile ?? t("compare.inline") },
    ...axes.map((path) => ({
      key: `axis.${path}`,
      label: labelOf(path),
      hint: path,
      num: true,
      cell: (row) => (path in row.key ? inputText(path, row.key[path]) : ""),
    })),
    cell("past", (value, row) => h("a", { href: `/results/${sides.baseline}.${row.past_point}` }, valueOf(column, value))),
    cell("new", (value) => valueOf(column, value)),
    cell("difference", (value, row) => differenceElement(column, value, row)),
    cell("relative", (value) => relativeText(value)),
    ...(causes
      ? [{ key: "causes", label: t("compare.causes"), cell: (row) => (row.causes ? causesElement(row.causes.volume, row.causes.rates) : "") }]
      : []),
    money("past", {}),
    money("new", {}),
    money("difference", { signed: true }),
    money("volume_effect", { signed: true }),
    money("price_effect", { signed: true }),
  ];
}

/** With its sign, and whether sampling alone could make it. */
function differenceElement(column, value, row) {
  const error = row.standard_error[column.name]?.difference;
  const look = column.name.startsWith("gpu_hours_lost") || column.name === "gpu_hours_not_useful" ? lookOf(value) : null;
  const hint = [
    error ? t("compare.standard_error", { error: signedText(column, error).replace("+", "") }) : null,
    row.ideal_changed ? t("compare.ideal_changed") : null,
  ].filter(Boolean);
  return h("span", { class: look, title: hint.join(" ") || null }, signedText(column, value), row.ideal_changed ? " *" : null);
}

function signedText(column, value) {
  if (value === null || value === undefined) return NOTHING;
  if (column.unit === "GPU-hours") return signedHours(value);
  const text = column.name.includes("_fraction") ? percent(value) : number(value, { maximumSignificantDigits: 4 });
  return value > 0 ? `+${text}` : text;
}

/** Only what tells the rows apart, shortly: a narrow chart cuts the end. The table has the long names. */
function shortNames(rows) {
  const isMixed = (name) => new Set(rows.map((row) => JSON.stringify(row.key[name] ?? null))).size > 1;
  const mixed = axesOf(rows).filter(isMixed);
  const names = ["name", "profile"].filter(isMixed);
  return rows.map((row) => {
    const axes = mixed.filter((path) => path in row.key).map((path) => `${shortLabel(path)}${inputText(path, row.key[path])}`);
    const parts = [...axes, ...names.map((name) => row.key[name] ?? t("compare.inline"))];
    return parts.join(" · ") || row.key.name;
  });
}

/** A number of GPUs needs no name; a name that is a sign ("cv") is its own. */
function shortLabel(path) {
  if (path === "num_gpus") return "";
  const last = path.split(".").at(-1);
  return `${last.length <= 3 ? last : labelOf(path).split(" · ").at(-1)} `;
}

/** The first rows as pairs of bars: past above new. */
export function pairsOf(items, column) {
  const drawn = items.filter((row) => row.past[column.name] !== null && row.new[column.name] !== null).slice(0, DRAWN);
  const short = shortNames(drawn);
  return drawn
    .flatMap((row, place) => {
      const axes = axesOf([row]).map((path) => `${labelOf(path)} ${inputText(path, row.key[path])}`);
      const long = [row.key.name, ...axes].join(" · ");
      const bar = (side, shown) => {
        const text = valueOf(column, row[side][column.name]);
        return { label: shown, start: 0, end: row[side][column.name], text, tone: side, tip: `${long}\n${t(`compare.${side}`)}: ${text}` };
      };
      return [bar("past", short[place]), bar("new", "")];
    });
}
