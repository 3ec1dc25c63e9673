// Which pricing of a batch is shown: that of when it ended, or a later one.

import { setAsked } from "./address.js";
import { get, withQuery } from "./api.js";
import { h } from "./dom.js";
import { count, moment } from "./format.js";
import { t } from "./texts.js";

/**
 * A choice, kept in the address: its `element` (null where there is nothing to choose from), and the
 * `currency` of what is chosen.
 */
export async function pricingChoice(batch, chosen) {
  const { items } = await get(`/v1/scenario-batches/${batch.id}/pricings`);
  const place = h("div", { class: "field pricing" });
  const shown = items.find((one) => String(one.pricing) === (chosen ?? "1"));
  const currency = shown ? shown.currency : batch.currency;
  if (items.length < 2) return { element: null, currency };
  const select = h(
    "select",
    { id: "pricing" },
    items.map((one) => {
      const words = { number: count(one.pricing), currency: one.currency ?? "", moment: moment(one.rates_as_of) };
      return h("option", { value: one.pricing, selected: one === shown }, t("results.pricing_of", words));
    }),
  );
  select.addEventListener("change", () => {
    setAsked({ pricing: select.value === "1" ? null : select.value, page: null }, { push: true });
    location.reload();
  });
  // The first one against what is shown, or against the newest where the first is shown
  const other = shown && shown !== items[0] ? shown : items.at(-1);
  const compared = withQuery("/compare", { baseline: batch.id, candidate: batch.id, candidate_pricing: other.pricing });
  const link = h("a", { href: compared }, t("results.compare_pricings", { number: count(other.pricing) }));
  place.append(h("label", { for: "pricing" }, t("results.pricing")), select, link);
  return { element: place, currency };
}
