// What a comparison says in a few figures: past, new, difference, and money by volume and price.

import { costElement } from "./costs.js";
import { h } from "./dom.js";
import { count, hours, NOTHING, signedHours, signedPercent } from "./format.js";
import { t } from "./texts.js";

/** Worse, better or as before, as a class: also told by the sign before the number. */
export function lookOf(difference) {
  const number = typeof difference === "object" ? Number(difference?.amount ?? 0) : (difference ?? 0);
  return number > 0 ? "worse" : number < 0 ? "better" : "quiet";
}

export function relativeText(relative) {
  return relative === null || relative === undefined ? NOTHING : signedPercent(relative);
}

/** The cards of the summary, then totals by profile, then what had no partner. */
export function summaryElements(comparison) {
  const { summary } = comparison;
  return [
    h("div", { class: "cards compare-cards" }, summary.items ? totalCards(summary) : nothingCards(), pairsCard(comparison)),
    summary.ideal_changed ? h("p", { class: "advice" }, t("compare.ideal_changed")) : null,
    comparison.warnings.length ? h("ul", { class: "advice" }, comparison.warnings.map((one) => h("li", {}, one.detail))) : null,
    profilesCard(summary),
  ];
}

function totalCards(summary) {
  return [hoursCard(summary.gpu_hours_lost), costCard(summary.cost_of_loss), effectsCard(summary.cost_of_loss)];
}

/** Of two that have nothing in common: no zeros, which would be figures. */
function nothingCards() {
  return ["hours", "cost"].map((name) =>
    h(
      "div",
      { class: "card" },
      h("p", { class: "label" }, t(name === "hours" ? "compare.hours_lost" : "compare.cost")),
      h("p", { class: "big quiet", id: `difference-${name}` }, NOTHING),
      h("p", { class: "hint" }, t("compare.nothing_to_compare")),
    ),
  );
}

function hoursCard(change) {
  return h(
    "div",
    { class: "card" },
    h("p", { class: "label" }, t("compare.hours_lost")),
    h("p", { class: `big ${lookOf(change.difference)}`, id: "difference-hours" }, signedHours(change.difference), h("small", {}, ` ${t("common.gpu_hours")}`)),
    h("p", { class: "hint", id: "past-new-hours" }, t("compare.from_to", { past: hours(change.past), new: hours(change.new) }), ` · ${relativeText(change.relative)}`),
  );
}

function costCard(cost) {
  const hint = cost.difference ? [costElement(cost.past, cost.past_status), " → ", costElement(cost.new, cost.new_status), ` · ${relativeText(cost.relative)}`] : t("compare.no_money");
  return h(
    "div",
    { class: "card" },
    h("p", { class: "label" }, t("compare.cost")),
    h("p", { class: `big ${lookOf(cost.difference)}`, id: "difference-cost" }, costElement(cost.difference, cost.status, { signed: true })),
    h("p", { class: "hint" }, hint),
  );
}

function effectsCard(cost) {
  const line = (name, amount) => [
    h("dt", {}, t(`compare.${name}`)),
    h("dd", { class: lookOf(amount), id: name.replace("_", "-") }, costElement(amount, cost.status, { signed: true })),
  ];
  return h(
    "div",
    { class: "card" },
    h("p", { class: "label" }, t("compare.apart")),
    h("dl", { class: "facts effects" }, line("volume_effect", cost.volume_effect), line("price_effect", cost.price_effect)),
    h("p", { class: "hint" }, t("compare.apart_hint")),
  );
}

function pairsCard(comparison) {
  const { left_out: out } = comparison.summary;
  const lines = [
    ["matched", comparison.matched],
    ["only_in_baseline", comparison.only_in_baseline],
    ["only_in_candidate", comparison.only_in_candidate],
    ["summed", comparison.summary.items],
    ["failed", out.failed],
    ["unmatched", out.unmatched_in_baseline || out.unmatched_in_candidate ? `${count(out.unmatched_in_baseline)} / ${count(out.unmatched_in_candidate)}` : 0],
    ["without_headline", out.without_headline_in_baseline || out.without_headline_in_candidate ? `${count(out.without_headline_in_baseline)} / ${count(out.without_headline_in_candidate)}` : 0],
  ].filter(([name, value], place) => place < 4 || value);
  return h(
    "div",
    { class: "card" },
    h("p", { class: "label" }, t("compare.points")),
    h("dl", { class: "facts effects" }, lines.flatMap(([name, value]) => [
      h("dt", {}, t(`compare.${name}`)),
      h("dd", { id: name.replaceAll("_", "-") }, typeof value === "number" ? count(value) : value),
    ])),
  );
}

function profilesCard(summary) {
  if (summary.profiles.length < 2) return null;
  const heads = ["profile", "past", "new", "difference", "relative", "cost_difference", "volume_effect", "price_effect"];
  const title = t("compare.by_profile");
  const rows = summary.profiles.map((total) => {
    const change = total.gpu_hours_lost;
    const cost = total.cost_of_loss;
    const money = (amount) => h("td", { class: `num ${lookOf(amount)}` }, costElement(amount, cost.status, { signed: true }));
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, total.profile ?? t("compare.inline")),
      h("td", { class: "num" }, hours(change.past)),
      h("td", { class: "num" }, hours(change.new)),
      h("td", { class: `num ${lookOf(change.difference)}` }, signedHours(change.difference)),
      h("td", { class: "num" }, relativeText(change.relative)),
      money(cost.difference),
      money(cost.volume_effect),
      money(cost.price_effect),
    );
  });
  return h(
    "section",
    { class: "card", "aria-labelledby": "by-profile" },
    h("h2", { id: "by-profile" }, title),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": t("common.table_of", { name: title }) },
      h(
        "table",
        {},
        h("caption", {}, t("compare.by_profile_hint")),
        h("thead", {}, h("tr", {}, heads.map((name, place) => h("th", { scope: "col", class: place ? "num" : null }, t(`compare.${name}`))))),
        h("tbody", {}, rows),
      ),
    ),
  );
}
