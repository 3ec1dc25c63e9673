// One value in two views: controls for all, and JSON for experts. The one that is shown is what counts.

import { announce, h } from "./dom.js";
import { FieldFault, field } from "./form.js";
import { clearField, markField } from "./problems.js";
import { t } from "./texts.js";

/**
 * - `controls`: `{element, read(), show(value), fits(value), misfit?(value)}`; a value that does not fit into the
 *   controls is shown as JSON, with why as `misfit` says it, if it can;
 * - `pointer`, `label`, `hint`, `rows`: of the JSON.
 * Answers `{element, read(), show(value)}`.
 */
export function twoViews({ pointer, label, hint, rows, controls, required = false }) {
  const json = field({ pointer, kind: "json", label: t("common.as_json_of", { name: label }), hint, rows, required });
  const views = { controls, json: { element: json.element, read: () => json.checked(), show: (value) => json.set(value), fits: () => true } };
  const buttons = ["controls", "json"].map((name) => h("button", { type: "button", "data-view": name, onclick: () => turn(name) }, t(`common.view_${name}`)));
  const place = h("div", {});
  const said = h("p", { class: "fault", role: "alert", hidden: true });
  const choice = h("div", { class: "views", role: "group", "aria-label": t("common.view_of", { name: label }) }, buttons);
  const element = h("fieldset", { class: "two-views" }, h("legend", {}, label), choice, said, place);
  let at = "controls";

  function put(name, value) {
    at = name;
    said.hidden = true;
    // Only what is shown stands in the page: faults find their fields there
    place.replaceChildren(views[name].element);
    views[name].show(value);
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.view === name));
  }

  function turn(name) {
    if (name === at) return;
    clearField(json.input);
    try {
      const value = views[at].read();
      if (!views[name].fits(value)) {
        tellMisfit(value);
        return;
      }
      put(name, value);
      announce(t(`common.view_${name}`));
    } catch (fault) {
      if (!(fault instanceof FieldFault)) throw fault;
      for (const one of fault.errors) {
        const input = place.querySelector(`[data-pointer="${CSS.escape(one.pointer)}"]`);
        if (input) markField(input, one);
      }
      tell(t("common.unreadable"));
    }
  }

  function tellMisfit(value) {
    tell(controls.misfit?.(value) ?? t("common.no_controls"));
  }

  function tell(sentence) {
    said.textContent = sentence;
    said.hidden = false;
  }

  return {
    element,
    read: () => views[at].read(),
    show(value) {
      const fits = controls.fits(value);
      put(fits ? "controls" : "json", value);
      if (!fits && value) tellMisfit(value);
    },
  };
}
