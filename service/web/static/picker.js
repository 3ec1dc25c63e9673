// A field that one searches and picks from: a combobox with a list (WAI-ARIA APG).

import { fill, h, settled } from "./dom.js";
import { t } from "./texts.js";

let made = 0;

/**
 * - `label`: of the field; `find(text) → [{value, text, hint?}]`: what matches, the nearest first;
 * - `chosen(option)`: called when one is picked.
 * Answers `{element, show(option), value}`; `show` sets what is picked without telling.
 */
export function picker({ label, find, chosen }) {
  const id = `picker-${(made += 1)}`;
  let options = [];
  let at = -1;
  let picked = null;
  let asked = 0;

  const input = h("input", {
    id, role: "combobox", "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-autocomplete": "list",
    autocomplete: "off", spellcheck: "false", placeholder: t("common.pick"),
  });
  const list = h("ul", { id: `${id}-list`, role: "listbox", "aria-label": label, hidden: true });
  const hint = h("p", { class: "hint" });
  const element = h("div", { class: "field picker" }, h("label", { for: id }, label), input, list, hint);

  async function open(text) {
    const mine = (asked += 1);
    let found;
    try {
      found = await find(text);
    } catch {
      // What went wrong is told by the page's own requests
      found = [];
    }
    if (mine !== asked) return;
    options = found;
    at = -1;
    fill(list, options.length ? options.map(optionElement) : h("li", { class: "empty" }, t("common.none_found")));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  }

  function close() {
    asked += 1;
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    input.value = picked?.text ?? "";
  }

  function optionElement(option, place) {
    const element_ = h(
      "li",
      { id: `${id}-${place}`, role: "option", "aria-selected": String(option.value === picked?.value) },
      option.text,
      option.hint ? h("small", {}, option.hint) : null,
    );
    // Before the field loses the focus, which closes the list
    element_.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      pick(option);
    });
    return element_;
  }

  function pick(option) {
    show(option);
    close();
    chosen(option);
  }

  function show(option) {
    picked = option;
    input.value = option?.text ?? "";
    hint.textContent = option?.hint ?? "";
  }

  function move(step) {
    if (!options.length) return;
    at = (at + step + options.length) % options.length;
    for (const [place, one] of [...list.children].entries()) one.classList.toggle("at", place === at);
    list.children[at].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `${id}-${at}`);
  }

  const search = settled((text) => open(text), 200);
  input.addEventListener("input", () => search(input.value.trim()));
  input.addEventListener("focus", () => input.select());
  input.addEventListener("click", () => list.hidden && open(""));
  input.addEventListener("blur", close);
  input.addEventListener("keydown", async (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) await open("");
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && !list.hidden && options.length) {
      event.preventDefault();
      pick(options[Math.max(at, 0)]);
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    }
  });

  return {
    element,
    show,
    get value() {
      return picked?.value ?? null;
    },
  };
}
