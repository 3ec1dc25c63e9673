// Controls that are bound to a path of the scenario: a slider and a number field of one value, a
// choice, a box to tick. Bounds are the API's (scenario_bounds.js); a slider covers the usual part.

import { h } from "./dom.js";
import { number } from "./format.js";
import { clearField, markField } from "./problems.js";
import { t } from "./texts.js";
import { decimalRefused, typedNumber, writtenNumber } from "./typed_number.js";

let made = 0;

/** `slow_groups.0.count` → `slow_groups_count`: the name of its texts. */
export function textName(path) {
  return path.replace(/\.\d+(?=\.|$)/g, "").replaceAll(".", "_");
}

/** A slider's places: evenly spaced values, or values of the same ratio. */
export function even(least, most, step) {
  const digits = (String(step).split(".")[1] ?? "").length;
  return {
    most: Math.round((most - least) / step),
    value: (place) => Number((least + place * step).toFixed(digits)),
    place: (value) => Math.round((value - least) / step),
  };
}

/** 1, 2, 4, … up to `most`, which is the last place. */
export function powersOfTwo(most) {
  const last = Math.ceil(Math.log2(most));
  return {
    most: last,
    value: (place) => Math.min(2 ** place, most),
    place: (value) => Math.min(last, Math.round(Math.log2(Math.max(1, value)))),
  };
}

/** Values in ratios of 10: 1, 1.5, 2, 3, 5, 7, 10, …; from 1 on they are counts, and whole. */
export function decades(least, most) {
  const values = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); power += 1) {
    for (const lead of [1, 1.5, 2, 3, 5, 7]) {
      const value = Number(`${lead}e${power}`);
      if (value >= least && value <= most && (least < 1 || Number.isInteger(value))) values.push(value);
    }
  }
  return {
    most: values.length - 1,
    value: (place) => values[place],
    place: (value) => {
      const after = values.findIndex((one) => one >= value);
      return after < 0 ? values.length - 1 : after;
    },
  };
}

/** Shown in another unit than it is sent in: 70 % for 0.7. All digits that were typed are kept. */
function sent(shown, factor) {
  return Number((shown * factor).toPrecision(15));
}

/**
 * A number: `{path, unit, slider, factor, label, hint, isOptional}`; `factor` is what one of the
 * shown unit is in the API's; `write(value)` where more than the path is to be moved.
 */
export function numberControl(store, given) {
  const { path, unit = "", slider = null, factor = 1, isOptional = false } = given;
  const name = given.name ?? textName(path);
  made += 1;
  const id = `c${made}`;
  const write = given.write ?? ((value) => store.change(path, value));
  const label = given.label ?? t(`scenario.${name}`);
  const hint = given.hint ?? t(`scenario.${name}_hint`);
  const field = h("input", {
    id,
    inputmode: "decimal",
    autocomplete: "off",
    "data-pointer": `/${path.replaceAll(".", "/")}`,
    "data-path": path,
    "data-factor": factor,
    "aria-describedby": `${id}-hint`,
    oninput: () => {
      const typed = typedNumber(field.value);
      showUnread(typed === undefined);
      // What is not read stands in the scenario as it was typed: nothing is computed of another.
      const value = typed === undefined ? field.value : typed === null ? null : sent(typed, factor);
      showPlace(value);
      write(value);
    },
    onchange: () => store.settle(),
  });
  const range = slider
    ? h("input", {
        type: "range",
        min: 0,
        max: slider.most,
        step: 1,
        "aria-label": label,
        "data-slider": path,
        oninput: () => {
          const value = sent(slider.value(range.valueAsNumber), factor);
          showUnread(false);
          showValue(value);
          told(value);
          write(value);
        },
        onchange: () => store.settle(),
      })
    : null;

  function told(value) {
    const shown = value === null || value === undefined ? "" : number(sent(value, 1 / factor), { maximumFractionDigits: 6 });
    range?.setAttribute("aria-valuetext", unit ? `${shown} ${unit}` : shown);
  }
  function showPlace(value) {
    if (!range || value === null || value === undefined || !Number.isFinite(value)) return;
    // A slider may end where another value is.
    range.max = String(slider.most);
    range.value = String(Math.max(0, Math.min(slider.most, slider.place(sent(value, 1 / factor)))));
    told(value);
  }
  function showValue(value) {
    const text = value === null || value === undefined ? "" : writtenNumber(Number(sent(value, 1 / factor).toPrecision(9)));
    if (field.value !== text) field.value = text;
  }
  function showUnread(is) {
    if (field.hasAttribute("data-unread") === is) return;
    clearField(field);
    if (is) markField(field, { detail: decimalRefused(), isOwn: true });
    field.toggleAttribute("data-unread", is);
  }

  const element = h(
    "div",
    { class: slider ? "field dial" : "field plain-number" },
    h("label", { for: id }, label),
    h("div", { class: "pair" }, range, h("span", { class: "sized" }, field, h("span", { class: "unit" }, unit))),
    h("p", { class: "hint", id: `${id}-hint` }, isOptional ? `${hint} ${t("scenario.may_be_empty")}` : hint),
  );
  return {
    element,
    path,
    show(value, isWhole = false) {
      // What is being typed stays as it is, unless all is replaced.
      if (isWhole || document.activeElement !== field) {
        const isUnread = typeof value === "string" && typedNumber(value) === undefined;
        if (isUnread) field.value = value;
        else showValue(typeof value === "number" ? value : null);
        showUnread(isUnread);
      }
      showPlace(typeof value === "number" ? value : null);
    },
  };
}

/** A choice: `{path | name, options: [[value, label]], value(), choose(value)}`. */
export function choiceControl(given) {
  made += 1;
  const id = `c${made}`;
  const select = h(
    "select",
    {
      id,
      "data-pointer": given.pointer ?? null,
      "data-choice": given.name,
      "aria-describedby": given.hint ? `${id}-hint` : null,
      onchange: () => given.choose(select.value),
    },
    given.options.map(([value, label]) => h("option", { value }, label)),
  );
  return {
    element: h(
      "div",
      { class: "field" },
      h("label", { for: id }, given.label),
      select,
      given.hint ? h("p", { class: "hint", id: `${id}-hint` }, given.hint) : null,
    ),
    show() {
      const value = String(given.value() ?? "");
      if (![...select.options].some((option) => option.value === value)) {
        select.append(h("option", { value }, value.replaceAll("_", " ")));
      }
      select.value = value;
    },
  };
}

/** Yes or no: `{name, pointer, value(), choose(isOn)}`. */
export function tickControl(given) {
  made += 1;
  const id = `c${made}`;
  const box = h("input", {
    id,
    type: "checkbox",
    "data-pointer": given.pointer ?? null,
    "data-tick": given.name,
    "aria-describedby": `${id}-hint`,
    onchange: () => given.choose(box.checked),
  });
  return {
    element: h(
      "div",
      { class: "field" },
      h("label", { class: "check", for: id }, box, given.label),
      h("p", { class: "hint", id: `${id}-hint` }, given.hint),
    ),
    show() {
      box.checked = Boolean(given.value());
    },
  };
}
