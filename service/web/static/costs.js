// Money as a cell: what it is, or why there is none. No rate is a normal state.

import { h } from "./dom.js";
import { money, signedMoney } from "./format.js";
import { named, t } from "./texts.js";

/** The amount, or the sentence for its status; `unpriced` days have no rate. */
export function costElement(cost, status, { signed = false, unpriced = 0 } = {}) {
  if (cost) return h("span", {}, signed ? signedMoney(cost) : money(cost));
  if (status === "withheld") {
    return h("span", { class: "tag", title: t("common.withheld_hint") }, t("common.withheld"));
  }
  const why = unpriced ? t("results.unpriced_days", { days: unpriced }) : null;
  const text = status === "no_rate" ? t("common.no_rate") : named("results.cost_", status);
  return h("span", { class: "quiet", title: why }, text);
}
