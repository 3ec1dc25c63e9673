// What a batch is: how far it has come, what it counts, and where it comes from.

import { fill, h } from "./dom.js";
import { count, day, momentElement } from "./format.js";
import { isRunning, pointsText, stateTag } from "./batch_parts.js";
import { t } from "./texts.js";

const COUNTED = ["succeeded", "failed", "running", "pending", "canceled"];
const TIMES = ["created_at", "running_at", "canceling_at", "ended_at", "deadline_at", "rates_as_of"];

/** Draw it into `place`; drawn again it changes only what changed. */
export function showFacts(place, batch) {
  fill(place, h("div", { class: "batch-cards" }, progressCard(batch), factsCard(batch)), notes(batch));
}

function progressCard(batch) {
  const bar = h("progress", {
    id: "progress",
    max: Math.max(batch.points_total, 1),
    value: batch.points_done,
    "aria-label": t("results.progress"),
  });
  const items = COUNTED.filter((name) => batch.counts[name]).map((name) =>
    h("li", {}, h("strong", {}, count(batch.counts[name])), ` ${t(`results.items_${name}`)}`),
  );
  return h(
    "section",
    { class: "card", "aria-labelledby": "progress-title" },
    h("div", { class: "spread" }, h("h2", { id: "progress-title" }, t("results.progress")), stateTag(batch.state)),
    h("p", { class: "big", id: "points" }, pointsText(batch)),
    bar,
    h("div", { class: "counts" }, h("span", {}, t("results.items_label")), h("ul", { class: "counts", id: "counts" }, items)),
    batch.points_failed ? h("p", { class: "worse" }, t("results.points_failed_of", { count: count(batch.points_failed) })) : null,
    isRunning(batch) ? h("p", { class: "hint" }, t("results.live")) : null,
  );
}

function factsCard(batch) {
  const facts = [
    ["start_on", day(batch.start_on)],
    ["currency", batch.currency ?? t("results.no_currency")],
    ...TIMES.filter((name) => batch[name]).map((name) => [name, momentElement(batch[name])]),
    ["created_by", batch.created_by],
    ["model_version", batch.model_version],
    ["digest", h("code", {}, batch.input_digest)],
    ["priority", count(batch.priority)],
    ...["reused_from", "retry_of"].filter((name) => batch[name]).map((name) => [name, h("a", { href: `/batches/${batch[name]}` }, batch[name])]),
    ...Object.entries(batch.metadata).map(([name, value]) => [null, value, name]),
  ];
  return h(
    "section",
    { class: "card", "aria-label": t("results.facts") },
    h("dl", { class: "facts" }, facts.flatMap(([key, value, own]) => [h("dt", {}, key ? t(`results.${key}`) : own), h("dd", {}, value)])),
  );
}

function notes(batch) {
  const found = [batch.failure, ...batch.warnings.map((warning) => warning.detail)].filter(Boolean);
  return found.length ? h("ul", { class: "advice" }, found.map((one) => h("li", {}, one))) : null;
}
