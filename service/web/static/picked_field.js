// A field of a form that one searches and picks from.

import { h } from "./dom.js";
import { FieldFault } from "./form.js";
import { picker } from "./picker.js";
import { t } from "./texts.js";

/**
 * As fields of form.js are. `find(text) → [{value, text, hint?}]`; `optionOf(value)`: what is shown of one that
 * was set; `none`: what having none is called, where it may have none.
 */
export function pickedField({ pointer, label, hint, required, find, optionOf, none }) {
  const nothing = none ? { value: null, text: none } : null;
  let tell = () => {};
  const choice = picker({
    label,
    find: async (text) => [...(nothing && !text ? [nothing] : []), ...(await find(text))],
    chosen: (option) => tell(option),
  });
  const { element } = choice;
  const input = element.querySelector("input");
  input.name = pointer;
  input.dataset.pointer = pointer;
  if (required) input.setAttribute("aria-required", "true");
  if (hint) element.append(h("p", { class: "hint" }, hint));

  async function nameIt(value) {
    try {
      const option = await optionOf(value);
      if (option && choice.value === value) choice.show(option);
    } catch {
      // Its id stays, which whoever sends the form is told about
    }
  }

  return {
    element,
    input,
    pointer,
    value: () => choice.value,
    checked() {
      if (required && choice.value === null && !element.hidden) throw new FieldFault([{ pointer, detail: t("common.needed") }]);
      return choice.value;
    },
    set(value) {
      if (value === null || value === undefined) return choice.show(nothing);
      choice.show({ value, text: value });
      return nameIt(value);
    },
    onChange(fn) {
      tell = fn;
    },
    disable(is) {
      input.disabled = is;
    },
  };
}
