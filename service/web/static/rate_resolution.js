// Which rate prices a day, and why the others do not.

import { asked, setAsked } from "./address.js";
import { get, withQuery } from "./api.js";
import { byId, fill, h, settled } from "./dom.js";
import { day, money } from "./format.js";
import { clearProblem, showProblem } from "./problems.js";
import { named, t } from "./texts.js";

const NAMES = ["gpu_type", "currency", "cost_center", "on"];

/** Answers as one types, once GPU type, currency and day are there: `{reload()}`. */
export function resolution(form, place) {
  const inputs = Object.fromEntries(NAMES.map((name) => [name, byId(`price-${name}`)]));
  let running = null;

  function read() {
    for (const name of NAMES) inputs[name].value = asked().get(`price_${name}`) ?? (name === "on" ? new Date().toISOString().slice(0, 10) : "");
  }

  async function show() {
    running?.abort();
    const query = Object.fromEntries(NAMES.map((name) => [name, inputs[name].value.trim()]));
    query.currency = query.currency.toUpperCase();
    clearProblem(form);
    if (!query.gpu_type || !/^[A-Z]{3}$/.test(query.currency) || !query.on) {
      fill(place, h("p", { class: "hint" }, t("rates.resolution_hint")));
      return;
    }
    running = new AbortController();
    try {
      fill(place, answer(await get(withQuery("/v1/gpu-hour-rates/resolution", query), { signal: running.signal })));
    } catch (problem) {
      showProblem(problem, { form });
    }
  }

  function typed() {
    setAsked(Object.fromEntries(NAMES.map((name) => [`price_${name}`, inputs[name].value.trim()])));
    show();
  }

  for (const input of Object.values(inputs)) input.addEventListener("input", settled(typed, 300));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    typed();
  });
  const reload = () => {
    read();
    return show();
  };
  reload();
  return { reload };
}

function answer(found) {
  const won = found.rate
    ? h("p", { class: "big" }, money(found.rate.price_per_gpu_hour), h("small", {}, ` ${t("rates.per_gpu_hour")}`))
    : h("p", { class: "big quiet" }, t("common.no_rate"));
  const why = h("p", {}, h("strong", {}, named("rates.won_", found.code)), " ", h("span", { class: "quiet", lang: "en" }, found.detail));
  if (!found.lost.length) return [won, why];
  const lost = found.lost.map((one) =>
    h(
      "li",
      {},
      h("strong", {}, money(one.rate.price_per_gpu_hour)),
      ` · ${one.rate.cost_center ?? t("rates.any")} · ${day(one.rate.valid_from)} – ${one.rate.valid_until ? day(one.rate.valid_until) : t("rates.open_end")} `,
      h("span", { class: "tag" }, named("rates.lost_", one.code)),
      h("div", { class: "hint", lang: "en" }, one.detail),
    ),
  );
  return [won, why, h("h3", {}, t("rates.lost")), h("ul", { class: "lost" }, lost)];
}
