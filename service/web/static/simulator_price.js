// What a GPU-hour costs: nothing, a stored rate, or an amount that is typed.

import { get, withQuery } from "./api.js";
import { fill, h } from "./dom.js";
import { money } from "./format.js";
import { folded } from "./scenario_more.js";
import { may } from "./session.js";
import { t } from "./texts.js";
import { decimalRead, decimalRefused, typedDecimal, writtenDecimal } from "./typed_number.js";

// That is 2 000 rates: more than anybody would look through
const MOST_PAGES = 10;
const CURRENCIES = ["EUR", "USD", "GBP", "CHF", "JPY"];

/** The fields of a request that ask for money; none where there is no price. */
export function priceFields(price) {
  if (price.mode === "typed" && price.amount !== "") {
    return { price_per_gpu_hour: { amount: price.amount, currency: price.currency } };
  }
  if (price.mode === "rates" && price.gpu_type) {
    const pricing = { gpu_type: price.gpu_type };
    if (price.cost_center) pricing.cost_center = price.cost_center;
    return { pricing, currency: price.currency };
  }
  return {};
}

export function writePrice(query, price) {
  if (price.mode === "typed" && price.amount !== "") {
    query.append("price", price.amount);
    query.append("currency", price.currency);
  } else if (price.mode === "rates" && price.gpu_type) {
    query.append("rates", price.gpu_type);
    if (price.cost_center) query.append("cost_center", price.cost_center);
    query.append("currency", price.currency);
  }
}

/** The price that an address asks for. What no amount is, the API says. */
export function readPrice(query) {
  const currency = query.get("currency") ?? "EUR";
  if (query.has("price")) return { mode: "typed", amount: query.get("price").slice(0, 40), currency };
  if (query.has("rates")) {
    return { mode: "rates", gpu_type: query.get("rates"), cost_center: query.get("cost_center"), currency };
  }
  return { mode: "none" };
}

/** The rates that are valid today, one of each key. */
async function storedRates() {
  if (!(await may("costs:read"))) return [];
  const today = new Date().toISOString().slice(0, 10);
  const rates = [];
  let token = null;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await get(withQuery("/v1/gpu-hour-rates", { on: today, page_size: 200, page_token: token }));
    rates.push(...page.items);
    token = page.next_page_token;
    if (!token) break;
  }
  return rates;
}

/** The section of the price; `show()` brings it up to date. */
export function priceSection(store) {
  const body = h("div", {});
  const { element, state } = folded("price", t("simulator.price"), body);
  let rates = null;
  let shape = null;
  let shownMode = "none";

  const mode = h(
    "select",
    { id: "price-mode", "data-pointer": "/pricing", onchange: () => choose(mode.value) },
    ["none", "typed", "rates"].map((one) => h("option", { value: one }, t(`simulator.price_${one}`))),
  );
  const amount = h("input", {
    id: "price-amount",
    inputmode: "decimal",
    autocomplete: "off",
    "data-pointer": "/price_per_gpu_hour/amount",
    "aria-describedby": "price-read",
    oninput: () => {
      const read = typedDecimal(amount.value);
      // What is not read is no price: money of another amount than the typed one would be shown.
      const isUnread = read === null && amount.value.trim() !== "";
      store.price = { ...store.price, amount: read ?? "", unread: isUnread ? amount.value : null };
      store.touched();
    },
    onchange: () => store.settle(),
  });
  const amountRead = h("p", { id: "price-read" });
  const currency = h("input", {
    id: "price-currency",
    list: "price-currencies",
    maxlength: 3,
    autocomplete: "off",
    "data-pointer": "/price_per_gpu_hour/currency",
    onchange: () => {
      store.price = { ...store.price, currency: currency.value.trim().toUpperCase() };
      store.touched();
      store.settle();
    },
  });
  const rate = h("select", {
    id: "price-rate",
    "data-pointer": "/pricing/gpu_type",
    onchange: () => pick(rates[Number(rate.value)]),
  });

  function choose(chosen) {
    if (chosen === "typed") store.price = { mode: "typed", amount: "", currency: store.price.currency ?? "EUR" };
    else if (chosen === "none") store.price = { mode: "none" };
    else {
      store.price = { mode: "rates", gpu_type: null, cost_center: null, currency: "EUR" };
      if (rates?.length) pick(rates[0]);
    }
    store.touched();
    store.settle();
  }
  function pick(one) {
    store.price = { mode: "rates", gpu_type: one.gpu_type, cost_center: one.cost_center, currency: one.price_per_gpu_hour.currency };
    store.touched();
    store.settle();
  }
  function isPicked(one) {
    const { price } = store;
    return one.gpu_type === price.gpu_type && (one.cost_center ?? null) === (price.cost_center ?? null) && one.price_per_gpu_hour.currency === price.currency;
  }
  function build() {
    const field = (id, label, input, hint) =>
      h("div", { class: "field" }, h("label", { for: id }, t(label)), input, hint ? h("p", { class: "hint" }, t(hint)) : null);
    const parts = [field("price-mode", "simulator.price_mode", mode, "simulator.price_mode_hint")];
    if (store.price.mode === "typed") {
      parts.push(
        h("div", { class: "row" }, field("price-amount", "simulator.price_amount", [amount, amountRead]), field("price-currency", "simulator.price_currency", currency)),
        h("datalist", { id: "price-currencies" }, CURRENCIES.map((one) => h("option", { value: one }))),
      );
    }
    if (store.price.mode === "rates") {
      if (rates?.length) parts.push(field("price-rate", "simulator.price_rate", rate, "simulator.price_rate_hint"));
      else parts.push(h("p", { class: "hint" }, t(rates ? "simulator.no_rates" : "common.loading")));
    }
    fill(body, ...parts);
    if (rates) {
      const text = (one) => [one.gpu_type, one.cost_center, money(one.price_per_gpu_hour)].filter(Boolean).join(" · ");
      fill(rate, ...rates.map((one, place) => h("option", { value: String(place) }, text(one))));
    }
  }
  /** How the amount is read, or that it is not. */
  function showAmount({ amount: read, unread, currency: of }) {
    if (document.activeElement !== amount) amount.value = unread ?? writtenDecimal(read);
    const isUnread = Boolean(unread);
    amount.toggleAttribute("data-unread", isUnread);
    if (isUnread) amount.setAttribute("aria-invalid", "true");
    else amount.removeAttribute("aria-invalid");
    amountRead.className = isUnread ? "fault" : "hint";
    const isRead = typedDecimal(writtenDecimal(read)) !== null;
    amountRead.textContent = isUnread ? decimalRefused() : isRead ? decimalRead(read, of) : "";
  }
  return {
    element,
    /** A profile says which GPUs it has: their rate is taken where nothing else was chosen. */
    match(profile) {
      const found = profile && (rates ?? []).filter((one) => one.gpu_type === profile.gpu_type);
      const own = found?.find((one) => (one.cost_center ?? null) === profile.cost_center) ?? found?.[0];
      if (own && store.price.mode === "none") {
        store.price = { mode: "rates", gpu_type: own.gpu_type, cost_center: own.cost_center, currency: own.price_per_gpu_hour.currency };
      }
    },
    async load() {
      rates = await storedRates();
      shape = null;
      this.show();
    },
    show() {
      const next = `${store.price.mode} ${rates === null}`;
      if (next !== shape) {
        const held = document.activeElement?.id;
        shape = next;
        build();
        if (held?.startsWith("price-")) document.getElementById(held)?.focus();
      }
      mode.value = store.price.mode;
      state.textContent = t(`simulator.price_${store.price.mode}`);
      if (store.price.mode !== "none" && shownMode === "none") element.open = true;
      shownMode = store.price.mode;
      if (store.price.mode === "typed") {
        showAmount(store.price);
        if (document.activeElement !== currency) currency.value = store.price.currency;
      }
      if (store.price.mode === "rates" && rates) rate.value = String(rates.findIndex(isPicked));
    },
  };
}
