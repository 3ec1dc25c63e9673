// Which columns a table shows: a dialog with all of them, what each means, and a search.

import { fill, h } from "./dom.js";
import { count } from "./format.js";
import { t } from "./texts.js";

/**
 * A button that opens the dialog. `groups`: `() → [{name, columns: [{key, label, sentence}]}]`;
 * `shown()`: the keys; `chosen(keys)` is called at each change, in the order of the groups, with null for "as at first".
 */
export function columnChoice({ groups, shown, chosen }) {
  const button = h("button", { type: "button", onclick: open }, t("results.columns"));

  function open() {
    const search = h("input", { type: "search", "aria-label": t("results.find_column"), placeholder: t("results.find_column"), autocomplete: "off" });
    const lists = h("div", { class: "choices" });
    const first = h("button", { type: "button", onclick: () => change(null) }, t("results.columns_default"));
    const close = h("button", { value: "close", class: "primary" }, t("common.close"));
    const dialog = h(
      "dialog",
      { class: "columns", "aria-label": t("results.columns") },
      h("form", { method: "dialog" }, h("div", { class: "spread" }, h("h2", {}, t("results.columns")), close), search, lists, h("div", { class: "actions" }, first)),
    );

    function draw() {
      const wanted = search.value.trim().toLowerCase();
      const keys = new Set(shown());
      const drawn = groups().map(({ name, columns }) => {
        const found = columns.filter((one) => `${one.label} ${one.key} ${one.sentence ?? ""}`.toLowerCase().includes(wanted));
        if (!found.length) return null;
        const title = `${name} (${count(found.length)})`;
        return h("fieldset", {}, h("legend", {}, title), found.map((one) => choice(one, keys)));
      });
      fill(lists, drawn.some(Boolean) ? drawn : h("p", { class: "empty" }, t("results.no_column")));
    }

    function choice(column, keys) {
      const box = h("input", { type: "checkbox", checked: keys.has(column.key), value: column.key });
      box.addEventListener("change", () => {
        if (box.checked) keys.add(column.key);
        else keys.delete(column.key);
        change([...keys]);
      });
      const words = h("span", {}, column.label, column.sentence ? h("small", {}, column.sentence) : null);
      return h("label", { class: "check" }, box, words);
    }

    function change(keys) {
      const order = groups().flatMap(({ columns }) => columns.map((column) => column.key));
      chosen(keys && order.filter((key) => keys.includes(key)));
      if (keys === null) draw();
    }

    search.addEventListener("input", draw);
    // Enter in the search would press the first button of the form: close it
    search.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
    dialog.addEventListener("close", () => dialog.remove());
    draw();
    document.body.append(dialog);
    dialog.showModal();
    search.focus();
  }

  return button;
}
