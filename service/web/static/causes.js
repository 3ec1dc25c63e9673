// Why a figure moved, as the API tells it: inputs, model, sampling; and rates for money.

import { costElement } from "./costs.js";
import { h } from "./dom.js";
import { count, money, signedHours } from "./format.js";
import { labelOf } from "./scenario_table.js";
import { named, t } from "./texts.js";

/** A list of the causes of GPU-hours, and of what rates did to money. */
export function causesElement(volume, rates = []) {
  const moved = rates.filter((rate) => rate.past_days !== rate.new_days);
  if (!volume?.length && !moved.length) return h("span", { class: "quiet" }, t("compare.no_causes"));
  return h("ul", { class: "causes" }, (volume ?? []).map(volumeItem), moved.map(rateItem));
}

function volumeItem(cause) {
  const from = cause.path ? [labelOf(cause.path), ": ", short(cause.past), " → ", short(cause.new)] : [cause.detail];
  return h(
    "li",
    { title: cause.detail },
    h("strong", {}, named("compare.cause_", cause.cause)),
    " ",
    from,
    " ",
    h("span", { class: "num" }, `${signedHours(cause.gpu_hours_per_30_days)} ${t("common.gpu_hours")}`),
  );
}

function rateItem(rate) {
  const words = { price: money(rate.price_per_gpu_hour), past: count(rate.past_days), new: count(rate.new_days) };
  return h(
    "li",
    { title: rate.rate_id },
    h("strong", {}, t("compare.cause_rate")),
    " ",
    t("compare.rate_days", words),
    rate.effect ? [" ", costElement(rate.effect, "priced", { signed: true })] : null,
  );
}

function short(text) {
  if (text === null || text === undefined) return t("compare.nothing");
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
