// A scenario as rows that people can read: what is set, where, and in which unit.

import { h } from "./dom.js";
import { exact, number } from "./format.js";
import { pathLink } from "./input_links.js";
import { has, named, t } from "./texts.js";

/** Endings of names and the unit that they stand for. */
const UNITS = [
  ["_ms", "ms"],
  ["_us", "us"],
  ["_s", "s"],
  ["_hours", "h"],
  ["_hours_per_gpu", "h"],
  ["_days", "d"],
  ["_bytes", "bytes"],
  ["_gigabytes_per_s", "gbs"],
  ["_fraction", "share"],
];

/** Every value with its path: [["communication.allreduce_ms", 80], …]; empty objects stay. */
export function leavesOf(value, path = "") {
  if (value === null || typeof value !== "object") return [[path, value]];
  const entries = Object.entries(value);
  if (!entries.length || (Array.isArray(value) && entries.every(([, one]) => typeof one !== "object"))) {
    return [[path, value]];
  }
  return entries.flatMap(([key, one]) => leavesOf(one, path ? `${path}.${key}` : key));
}

/** What differs between two scenarios: [{path, before, after}], undefined where there was nothing. */
export function changesOf(before, after) {
  const past = new Map(leavesOf(before));
  const present = new Map(leavesOf(after));
  const paths = [...new Set([...past.keys(), ...present.keys()])];
  return paths
    .map((path) => ({ path, before: past.get(path), after: present.get(path) }))
    .filter((one) => JSON.stringify(one.before) !== JSON.stringify(one.after))
    // A list that was empty has nothing to say beside what stands in it now
    .filter((one) => !(isNothing(one.before) && isNothing(one.after)));
}

function isNothing(value) {
  return value === undefined || value === null || (typeof value === "object" && !Object.keys(value).length);
}

export function unitOf(path) {
  const unit = UNITS.find(([ending]) => path.endsWith(ending))?.[1];
  return unit ? t(`profiles.unit_${unit}`) : "";
}

/** The words for a path: those of its last name, after those of what it belongs to. */
export function labelOf(path) {
  const whole = `profiles.field_${path.replaceAll(".", "_")}`;
  if (has(whole)) return t(whole);
  return path
    .split(".")
    .map((part) => (/^\d+$/.test(part) ? exact(Number(part) + 1) : named("profiles.field_", part)))
    .join(" · ");
}

export function valueText(value) {
  if (value === undefined || value === null) return t("profiles.nothing");
  if (typeof value === "number") return number(value, { maximumSignificantDigits: 7 });
  if (typeof value === "boolean") return t(value ? "profiles.yes" : "profiles.no");
  if (typeof value === "string") return named("profiles.value_", value);
  if (Array.isArray(value) && value.length) return value.map(valueText).join("; ");
  return t("profiles.nothing");
}

/** The table of a scenario's values, and under it the names of what it leaves out. */
export function scenarioTable(scenario, caption) {
  const leaves = leavesOf(scenario);
  const left = leaves.filter(([, value]) => isNothing(value)).map(([path]) => labelOf(path));
  const rows = leaves.filter(([, value]) => !isNothing(value)).map(([path, value]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, labelOf(path)),
      h("td", { class: "num" }, valueText(value)),
      h("td", {}, unitOf(path)),
      h("td", {}, pathLink(path)),
    ),
  );
  const heads = ["what", "value", "unit", "path"].map((key) =>
    h("th", { scope: "col", class: key === "value" ? "num" : null }, t(`profiles.head_${key}`)),
  );
  const whole = h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)),
  );
  return [whole, left.length ? h("p", { class: "hint" }, t("profiles.not_set", { names: left.join(", ") })) : null];
}
