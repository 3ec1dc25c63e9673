// Why a run or a delivery is as it is, in the page's language: from the code and the values that the
// API gives beside its English sentence.

import { h } from "./dom.js";
import { money, momentElement, number } from "./format.js";
import { has, named, t } from "./texts.js";
import { localElement } from "./wall_time.js";

const NUMBER = /^([+-]?)\d+(?:\.(\d+))?(%?)$/;
const MONEY = /^(-?\d+(?:\.\d+)?) ([A-Z]{3})$/;
// What may look like a number and is none
const WORDS = ["address", "clock", "endpoint_id", "folder", "host", "name", "names", "port", "revision", "slug", "status", "team"];

/** Nodes of the sentence; one that has no code is the API's own, in English. */
export function reasonNodes(coded, sentence) {
  if (!coded || !has(`reasons.${coded.code}`)) return [h("span", { lang: "en" }, sentence)];
  const nodes = filled(coded.code, given(coded.values));
  return coded.values.least ? [...nodes, " ", ...filled("by_less", { least: shown("least", coded.values.least) })] : nodes;
}

export function reasonElement(coded, sentence) {
  return sentence ? h("div", { class: "hint" }, reasonNodes(coded, sentence)) : null;
}

/** Nodes of a warning of a run or of a backfill, which has a code of its own. */
export function noticeNodes({ code, values, detail }) {
  const own = code === "late_run" ? "taken_up_late" : code;
  return reasonNodes(Object.keys(values).length ? { code: own, values } : null, detail);
}

function filled(code, values) {
  // The text of a place is its name, where a node is to stand
  const names = Object.keys(values);
  const text = t(`reasons.${code}`, Object.fromEntries(names.map((name) => [name, `\u0000${name}\u0000`])));
  return text.split("\u0000").map((part, place) => (place % 2 ? values[part] : part));
}

function given(values) {
  const nodes = Object.fromEntries(Object.entries(values).map(([name, text]) => [name, shown(name, text)]));
  if (values.difference) {
    const { limit_gpu_hours, limit_relative } = nodes;
    nodes.relative = values.relative ? ` (${nodes.relative})` : "";
    nodes.limit = [limit_gpu_hours && t("reasons.gpu_hours", { hours: limit_gpu_hours }), limit_relative].filter(Boolean).join(t("reasons.or"));
  }
  return nodes;
}

function shown(name, text) {
  if (name === "detail") return h("span", { lang: "en" }, text);
  if (name === "local_time") return localElement(text);
  if (name === "at") return momentElement(text);
  if (name === "late") return text.replace(/ d\b/, ` ${t("reasons.day_unit")}`);
  if (name === "state" || name === "reprocess") return named(`reasons.${name}_`, text);
  if (WORDS.includes(name)) return text;
  const [, amount, currency] = MONEY.exec(text) ?? [];
  if (currency) return money({ amount, currency });
  const [, sign, decimals = "", percent] = NUMBER.exec(text) ?? [];
  if (sign === undefined) return text;
  const digits = { minimumFractionDigits: decimals.length, maximumFractionDigits: decimals.length, signDisplay: sign ? "exceptZero" : "auto" };
  return percent ? number(Number(text.slice(0, -1)) / 100, { ...digits, style: "percent" }) : number(text, digits);
}
