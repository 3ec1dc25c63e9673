// What would help: remedies ranked by what they give back, asked for by a button.

import { ask } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { exact, hours, money, percent, signedHours } from "./format.js";
import { copied } from "./scenario_state.js";
import { partNote } from "./simulator_pictures.js";
import { priceFields } from "./simulator_price.js";
import { named, t } from "./texts.js";

function settingOf(remedy) {
  const parts = Object.entries(remedy.setting ?? {});
  return parts.map(([name, value]) => `${named("scenario.setting_", name)}: ${typeof value === "number" ? exact(value) : value}`).join(", ");
}

function row(remedy, hasMoney, apply) {
  const setting = settingOf(remedy);
  const name = named("scenario.remedy_", remedy.kind);
  const error = remedy.gpu_hours_given_back_se > 0 ? h("small", {}, ` ±${hours(remedy.gpu_hours_given_back_se)}`) : null;
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, name, setting ? h("small", { class: "setting" }, setting) : null),
    h("td", { class: "num" }, signedHours(remedy.gpu_hours_given_back), error),
    h("td", { class: "num" }, percent(remedy.efficiency_fraction_after)),
    hasMoney ? h("td", { class: "num" }, money(remedy.money_given_back)) : null,
    h("td", {}, h("button", { type: "button", class: "quiet", "aria-label": t("simulator.apply_named", { name, setting }), onclick: () => apply(remedy) }, t("simulator.apply"))),
  );
}

export function remedies(store) {
  const list = byId("remedy-list");
  const button = byId("ask-remedies");
  let shown = false;

  store.onChange(() => {
    if (shown) list.setAttribute("aria-busy", "true");
  });

  /** The remedy's own overrides become the scenario: it is evaluated like any other. */
  function apply(remedy) {
    store.reshape((scenario) => {
      for (const [path, value] of Object.entries(remedy.overrides)) {
        const parts = path.split(".");
        const last = parts.pop();
        let place = scenario;
        for (const part of parts) {
          place[part] ??= {};
          place = place[part];
        }
        place[last] = copied(value);
      }
    });
    byId("figures-title").scrollIntoView({ block: "center" });
  }

  button.addEventListener("click", async () => {
    const turn = store.turn;
    button.disabled = true;
    list.setAttribute("aria-busy", "true");
    try {
      const body = { scenario: copied(store.scenario), ...priceFields(store.price) };
      const { data } = await ask("POST", "/v1/evaluations/remedies", { body });
      shown = true;
      const hasMoney = data.cost_status === "priced" || data.cost_status === "partly_priced";
      const head = ["remedy", "given_back", "efficiency_after", ...(hasMoney ? ["money_back"] : []), "try"];
      fill(
        list,
        data.remedies.length === 0
          ? h("p", { class: "empty" }, t("simulator.no_remedies"))
          : h(
              "div",
              { class: "scroll", tabindex: 0, role: "region", "aria-label": t("simulator.remedies_caption") },
              h(
                "table",
                {},
                h("caption", {}, t("simulator.remedies_caption")),
                h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col", class: ["remedy", "try"].includes(name) ? null : "num" }, t(`simulator.${name}`))))),
                h("tbody", {}, data.remedies.map((remedy) => row(remedy, hasMoney, apply))),
              ),
            ),
      );
      list.setAttribute("aria-busy", String(turn !== store.turn));
    } catch (problem) {
      // Of this card alone, so it is said in it; the button above asks again.
      fill(list, partNote(problem)).setAttribute("aria-busy", "false");
    } finally {
      button.disabled = false;
    }
  });
}
