// Forms out of descriptions of their fields. Each field carries the JSON pointer of what it sets, so
// that problems.js finds the field of an error; what is valid only the API decides.

import { h, settled } from "./dom.js";
import { faultOf } from "./field_checks.js";
import { pickedField } from "./picked_field.js";
import { has, t } from "./texts.js";
import { decimalRead, decimalRefused, typedDecimal, typedNumber, writtenDecimal, writtenNumber } from "./typed_number.js";

let made = 0;

/** What lies at a JSON pointer (RFC 6901); undefined where nothing does. */
export function valueAt(document, pointer) {
  return partsOf(pointer).reduce((found, part) => found?.[part], document);
}

/** The same document with another value at the pointer; undefined takes it away. */
export function setAt(document, pointer, value) {
  const copy = structuredClone(document);
  const parts = partsOf(pointer);
  const last = parts.pop();
  if (last === undefined) return value;
  let place = copy;
  for (const [depth, part] of parts.entries()) {
    if (place[part] === null || typeof place[part] !== "object") {
      if (value === undefined) return copy;
      place[part] = /^\d+$/.test(parts[depth + 1] ?? last) ? [] : {};
    }
    place = place[part];
  }
  if (value === undefined) delete place[last];
  else place[last] = value;
  return copy;
}

function partsOf(pointer) {
  if (!pointer) return [];
  return pointer
    .slice(1)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/**
 * A field: `{pointer, kind, label, hint, unit, options, required, min, max, above, step, pattern,
 * wanted, rows, list, value}`.
 *
 * - `kind`: number (typed as the page's language writes it; `factor`: what one of it is in the API's unit), decimal (money: the same, but a text for
 *   the API, with the pointer of its `currency`), text, select, date, check, json, lines (a list of texts, one a line) or pairs
 *   (an object of texts, "key: value" a line), choices (several of `options`, each to be ticked),
 *   picked (one that is searched for, see picked_field.js);
 * - `options`: [[value, label]] of a select; `list`: suggestions of a text;
 * - an empty field is `null`, or left out (undefined) with `absent: true`.
 *
 * → `{element, input, pointer, value(), checked(), set(value), onChange(fn), disable(is)}`: `value()`
 * raises a `FieldFault` where the text cannot be read at all (JSON with a comma too many), `checked()`
 * also where it is not as described.
 */
export function field(description) {
  const { kind, pointer } = description;
  if (kind === "choices") return choicesField(description);
  if (kind === "picked") return pickedField(description);
  made += 1;
  const id = `f${made}-${pointer.replace(/[^A-Za-z0-9]+/g, "-")}`;
  const input = inputOf(description, id);
  const told = description.hint ? h("p", { class: "hint", id: `${id}-hint` }, description.hint) : null;
  const read = kind === "decimal" ? h("p", { class: "hint", id: `${id}-read` }) : null;
  const tells = [told, read].filter(Boolean);
  if (tells.length) input.setAttribute("aria-describedby", tells.map((one) => one.id).join(" "));
  const list = description.list ? listOf(description.list, `${id}-list`) : null;
  if (list) input.setAttribute("list", list.id);
  const caption = [description.label, description.unit ? h("small", { class: "quiet unit" }, ` (${description.unit})`) : null];
  const element =
    kind === "check"
      ? h("div", { class: "field" }, h("label", { class: "check", for: id }, input, h("span", {}, caption)), told)
      : h("div", { class: "field" }, h("label", { for: id }, caption), input, list, tells);
  const one = {
    element,
    input,
    pointer,
    value: () => readField(description, input),
    checked() {
      const value = one.value();
      // What is hidden is not asked for
      const fault = element.hidden || input.disabled ? null : faultOf(description, value);
      if (fault) throw new FieldFault([{ pointer, detail: fault }]);
      return value;
    },
    set: (value) => writeField(description, input, value),
    onChange: (fn) => input.addEventListener(kind === "select" || kind === "check" ? "change" : "input", fn),
    /** Say how a decimal is read. */
    tell: (currency) => {
      const amount = typedDecimal(input.value);
      read.textContent = amount === null ? "" : decimalRead(amount, currency?.toUpperCase());
    },
    disable: (is) => {
      input.disabled = is;
    },
  };
  if ("value" in description) one.set(description.value);
  return one;
}

/** Several of the options, in the order in which they stood; a fault is told at the first box. */
function choicesField({ pointer, label, hint: told, options, required }) {
  const boxes = options.map(([value], place) => h("input", { type: "checkbox", name: pointer, value, "data-pointer": place ? null : pointer }));
  const labels = options.map(([, text], place) => h("label", { class: "check" }, boxes[place], h("span", {}, text)));
  const element = h("fieldset", { class: "field choices" }, h("legend", {}, label), h("div", { class: "tags" }, labels), told ? h("p", { class: "hint" }, told) : null);
  let order = [];
  const value = () => {
    const ticked = boxes.filter((box) => box.checked).map((box) => box.value);
    return [...order.filter((one) => ticked.includes(one)), ...ticked.filter((one) => !order.includes(one))];
  };
  return {
    element,
    input: boxes[0],
    pointer,
    value,
    checked() {
      const found = value();
      if (required && !found.length && !element.hidden) throw new FieldFault([{ pointer, detail: t("common.needed") }]);
      return found;
    },
    set(values) {
      order = values ?? [];
      for (const box of boxes) box.checked = order.includes(box.value);
    },
    onChange: (fn) => element.addEventListener("change", fn),
    disable(is) {
      for (const box of boxes) box.disabled = is;
    },
  };
}

/** Raised where fields cannot be read, or break a rule; it looks like a problem of the API's. */
export class FieldFault extends Error {
  /** `faults`: `{pointer, detail}` each. */
  constructor(faults) {
    super(faults[0].detail);
    this.title = t("common.unreadable");
    this.detail = "";
    this.errors = faults.map((one) => ({ code: "unreadable", isOwn: true, ...one }));
    this.traceId = null;
  }
}

/** What each of the functions answers; the faults of all of them are raised as one. */
export function gathered(reads) {
  const faults = [];
  const found = reads.map((read) => {
    try {
      return read();
    } catch (fault) {
      if (!(fault instanceof FieldFault)) throw fault;
      faults.push(...fault.errors);
      return undefined;
    }
  });
  if (faults.length) throw new FieldFault(faults);
  return found;
}

/**
 * Several fields over one document: `{element, fields, read(), show(document), onChange(fn)}`.
 *
 * `read()` is the shown document with the fields' values put in, so that what has no field stays.
 * Fields are filled in in their order: one of a whole object comes before those of its parts.
 */
export function fieldset(descriptions, { legend = null, className = "fields" } = {}) {
  const fields = descriptions.map(field);
  const element = h("fieldset", {}, legend ? h("legend", {}, legend) : null, h("div", { class: className }, fields.map((one) => one.element)));
  let shown = {};
  const tellers = descriptions.flatMap(({ kind, currency }, place) => {
    if (kind !== "decimal") return [];
    const other = fields.find((one) => one.pointer === currency);
    const tell = () => fields[place].tell(other ? other.value() : valueAt(shown, currency));
    for (const one of [fields[place], other]) one?.onChange(tell);
    return [tell];
  });
  return {
    element,
    fields,
    field: (pointer) => fields.find((one) => one.pointer === pointer),
    read() {
      let read = shown;
      const values = gathered(fields.map((one) => one.checked));
      for (const [place, one] of fields.entries()) {
        const value = values[place];
        const absent = value === null && descriptions[place].absent;
        read = setAt(read, one.pointer, absent ? undefined : value);
      }
      return read;
    },
    show(document) {
      shown = structuredClone(document);
      for (const one of fields) one.set(valueAt(document, one.pointer));
      for (const tell of tellers) tell();
    },
    onChange(fn, wait = 0) {
      const called = wait ? settled(fn, wait) : fn;
      for (const one of fields) one.onChange(called);
    },
  };
}

/** Disable a form's button while `work` is done. */
export async function busy(button, work) {
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    return await work();
  } finally {
    button.disabled = false;
    button.removeAttribute("aria-busy");
  }
}

function inputOf({ kind, pointer, options, required, min, step, rows, placeholder, factor }, id) {
  const shared = { id, name: pointer, "data-pointer": pointer, "data-factor": factor, "aria-required": required ? "true" : null };
  if (kind === "select") {
    return h("select", shared, options.map(([value, label]) => h("option", { value: value ?? "" }, label)));
  }
  if (kind === "check") return h("input", { ...shared, type: "checkbox" });
  if (kind === "json" || kind === "lines" || kind === "pairs") {
    return h("textarea", { ...shared, rows: rows ?? (kind === "json" ? 12 : 3), placeholder, spellcheck: "false", class: kind });
  }
  const texts = { ...shared, placeholder, autocomplete: "off" };
  if (kind === "number") return h("input", { ...texts, type: "text", inputmode: step === 1 && !(min < 0) ? "numeric" : "decimal" });
  if (kind === "decimal") return h("input", { ...texts, type: "text", inputmode: "decimal" });
  return h("input", { ...texts, type: kind === "date" ? "date" : "text", spellcheck: "false" });
}

function listOf(values, id) {
  return h("datalist", { id }, values.map((value) => h("option", { value })));
}

function readField({ kind, pointer, options, factor = 1 }, input) {
  if (kind === "check") return input.checked;
  if (kind === "select") return options[input.selectedIndex]?.[0] ?? null;
  const text = input.value.trim();
  if (kind === "number") {
    const value = typedNumber(text);
    if (value === undefined) throw new FieldFault([{ pointer, detail: decimalRefused() }]);
    return value === null || factor === 1 ? value : Number((value * factor).toPrecision(15));
  }
  if (kind === "decimal" && text !== "") {
    const amount = typedDecimal(text);
    if (amount === null) throw new FieldFault([{ pointer, detail: decimalRefused() }]);
    return amount;
  }
  if (kind === "json") return text === "" ? null : parsed(pointer, text);
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (kind === "lines") return lines;
  if (kind === "pairs") {
    return Object.fromEntries(
      lines.map((line) => {
        const at = line.indexOf(":");
        if (at < 1) throw new FieldFault([{ pointer, detail: t("common.no_pair", { line }) }]);
        return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      }),
    );
  }
  return text === "" ? null : text;
}

function parsed(pointer, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new FieldFault([{ pointer, detail: t("common.no_json", { why: error.message }) }]);
  }
}

function writeField({ kind, options, factor = 1 }, input, value) {
  if (kind === "check") input.checked = Boolean(value);
  else if (kind === "select") {
    const place = options.findIndex(([one]) => one === (value ?? null));
    input.selectedIndex = place < 0 && value === undefined ? 0 : place;
  } else if (kind === "json") input.value = value === null || value === undefined ? "" : JSON.stringify(value, null, 2);
  else if (kind === "lines") input.value = (value ?? []).join("\n");
  else if (kind === "pairs") input.value = Object.entries(value ?? {}).map(([key, text]) => `${key}: ${text}`).join("\n");
  else if (kind === "decimal") input.value = writtenDecimal(value ?? "");
  else if (kind === "number") input.value = writtenNumber(typeof value === "number" ? Number((value / factor).toPrecision(15)) : (value ?? ""));
  else input.value = value ?? "";
}

/** The text of a key, or null where there is none: for hints that not every field has. */
export function hint(key) {
  return has(key) ? t(key) : null;
}
