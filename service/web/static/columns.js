// The output columns: their names, units and sentences in the page's language, and their values.

import { h } from "./dom.js";
import { count, exact, hours, ms, NOTHING, number, percent } from "./format.js";
import { named, t } from "./texts.js";

let asked;

/** All output columns in their order: `{name, label, unit, unit_label, kind, values, sentence}`. */
export function columnsOf() {
  asked ??= fetch(document.documentElement.dataset.columns).then((answer) => answer.json());
  return asked;
}

/** A value of the column as text, without its unit. */
export function valueOf(column, value) {
  if (value === null || value === undefined) return NOTHING;
  if (column.kind === "bool") return t(value ? "results.yes" : "results.no");
  if (column.kind === "enum") return column.values[value] ?? value;
  if (column.kind === "int64") return count(value);
  if (column.unit === "GPU-hours") return hours(value);
  if (column.unit === "ms") return ms(value);
  if (column.name.includes("_fraction")) return percent(value);
  return number(value, { maximumSignificantDigits: 4 });
}

/** The value with all its digits in a tooltip. */
export function valueElement(column, value) {
  const text = valueOf(column, value);
  return typeof value === "number" && text !== exact(value) ? h("span", { title: exact(value) }, text) : text;
}

/** How it is headed: its label, and its unit where it has one. */
export function headingOf(column) {
  return column.unit ? `${column.label} [${column.unit_label}]` : column.label;
}

/** A value on an axis. */
export function inputText(path, value) {
  if (value === null) return t("results.off");
  if (typeof value === "boolean") return t(value ? "results.yes" : "results.no");
  if (typeof value === "number") return exact(value);
  return typeof value === "object" ? JSON.stringify(value) : named("profiles.value_", value);
}
