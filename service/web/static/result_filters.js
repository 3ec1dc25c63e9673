// The filters of results: kept in the address under the API's own names.

import { asked, onMoved, setAsked } from "./address.js";
import { fill, h, settled } from "./dom.js";
import { faultOfText } from "./field_checks.js";
import { clearField, markField } from "./problems.js";
import { t } from "./texts.js";

const OPERATORS = ["ge", "gt", "le", "lt", "eq", "ne", "is_null"];
const FIELDS = [
  { name: "profile", type: "search", maxlength: 80 },
  { name: "name", type: "search", maxlength: 200 },
  // As text: a number field would throw away what is no number, and say nothing
  { name: "num_gpus_min", type: "text", inputmode: "numeric" },
  { name: "num_gpus_max", type: "text", inputmode: "numeric" },
];
// What the API would refuse is told at its field, and not asked
const CHECKS = {
  num_gpus_min: { kind: "number", step: 1, min: 1 },
  num_gpus_max: { kind: "number", step: 1, min: 1 },
  currency: { kind: "text", pattern: /^[A-Z]{3}$/, wanted: t("common.give_currency") },
};
const ACROSS = [
  { name: "created_after", type: "date" },
  { name: "created_before", type: "date" },
  { name: "currency", type: "text", maxlength: 3, pattern: "[A-Z]{3}" },
];

/**
 * Put the filters into `element`; `changed()` is called after each change of them. `isAcross`: also
 * those that make sense only across batches. `{values(), setPaths(columns)}`: the parameters of the
 * API, and the columns that a condition may name.
 */
export function resultFilters(element, { isAcross, changed }) {
  const fields = [...FIELDS, ...(isAcross ? ACROSS : [])].map(fieldOf);
  const paths = h("datalist", { id: "condition-paths" });
  const conditions = h("div", { class: "conditions" });
  const more = h("button", { type: "button", class: "quiet", onclick: () => add("::", true) }, t("results.add_condition"));
  const clear = h("button", { type: "button", class: "quiet", onclick: clearAll }, t("results.clear_filters"));
  const form = h(
    "form",
    { class: "result-filters", role: "search", "aria-label": t("results.filters"), onsubmit: (event) => event.preventDefault() },
    h("div", { class: "row" }, fields.map((one) => one.element)),
    conditions,
    h("div", { class: "row" }, more, clear),
    paths,
  );
  const soon = settled(() => changedNow(false), 350);
  fill(element, form);
  show();
  onMoved(show);

  function fieldOf({ name, ...attributes }) {
    const id = `filter-${name}`;
    const input = h("input", { id, autocomplete: "off", spellcheck: "false", ...attributes, oninput: () => soon() });
    return {
      name,
      input,
      element: h("div", { class: "field" }, h("label", { for: id }, t(`results.filter_${name}`)), input),
    };
  }

  function show() {
    const query = asked();
    for (const { name, input } of fields) input.value = query.get(name) ?? "";
    checked();
    fill(conditions);
    for (const text of query.all("where")) add(text, false);
    toggleClear();
  }

  function add(text, isNew) {
    const [path, operator, ...rest] = text.split(":");
    const number = conditions.children.length + 1;
    const column = h("input", {
      list: "condition-paths", value: path, "aria-label": t("results.condition_path", { number }),
      placeholder: t("results.condition_path_hint"), autocomplete: "off", spellcheck: "false", oninput: () => soon(),
    });
    const operators = h(
      "select",
      { "aria-label": t("results.condition_operator", { number }), onchange: () => changedNow(true) },
      OPERATORS.map((one) => h("option", { value: one, selected: one === operator }, t(`results.operator_${one}`))),
    );
    const value = h("input", {
      value: rest.join(":"), "aria-label": t("results.condition_value", { number }),
      autocomplete: "off", spellcheck: "false", oninput: () => soon(),
    });
    const away = h(
      "button",
      { type: "button", class: "quiet", "aria-label": t("results.condition_away", { number }), onclick: () => remove(row) },
      "×",
    );
    const row = h("div", { class: "condition" }, column, operators, value, away);
    conditions.append(row);
    if (isNew) column.focus();
  }

  function remove(row) {
    row.remove();
    more.focus();
    changedNow(true);
  }

  /** Mark each field that cannot be asked; whether there is none. */
  function checked() {
    const faults = fields.map(({ name, input }) => {
      clearField(input);
      if (!CHECKS[name]) return null;
      const fault = faultOfText(CHECKS[name], input.value.trim());
      if (fault) markField(input, { detail: fault, isOwn: true });
      return fault;
    });
    return !faults.some(Boolean);
  }

  /** Conditions that are written in full; the others wait for the rest. */
  function written() {
    return [...conditions.children]
      .map((row) => [...row.querySelectorAll("input, select")].map((one) => one.value.trim()))
      .filter(([path, operator, value]) => path && value && operator)
      .map((parts) => parts.join(":"));
  }

  function values() {
    const found = Object.fromEntries(fields.map(({ name, input }) => [name, input.value.trim()]));
    return { ...found, where: written() };
  }

  function changedNow(push) {
    setAsked(values(), { push });
    toggleClear();
    if (checked()) changed();
  }

  function clearAll() {
    for (const { input } of fields) input.value = "";
    fill(conditions);
    changedNow(true);
    fields[0].input.focus();
  }

  function toggleClear() {
    const is = values();
    clear.hidden = !Object.values(is).some((value) => value.length);
  }

  function setPaths(pairs) {
    fill(paths, pairs.map(([name, label]) => h("option", { value: name }, label)));
  }

  return {
    /** As parameters of the API: days become moments. */
    values() {
      const { created_after: after, created_before: before, ...rest } = values();
      const moment = (day) => (day ? new Date(`${day}T00:00:00`).toISOString() : null);
      return { ...rest, ...(isAcross ? { created_after: moment(after), created_before: moment(before) } : {}) };
    },
    setPaths,
  };
}
