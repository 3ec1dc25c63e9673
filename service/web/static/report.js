// One report: its headline and budget from the API, the report itself in a frame, its files.

import { ask, withQuery } from "./api.js";
import { leaveSaying } from "./carried_word.js";
import { announce, byId, fill, h } from "./dom.js";
import { count, hours, money, momentElement, percent, signedHours, signedMoney, signedPercent } from "./format.js";
import { showProblem } from "./problems.js";
import { budgetTag, reportState } from "./report_states.js";
import { attempt, confirmed, onlyWith } from "./submit.js";
import { counted, language, named, t } from "./texts.js";
import { localElement } from "./wall_time.js";

const id = decodeURIComponent(location.pathname.split("/").at(-1));
const ADDRESS = `/v1/reports/${encodeURIComponent(id)}`;
const FORMATS = ["html", "json", "csv", "parquet", "focus"];
const LANGUAGES = ["en", "fr"];
const UNFINISHED = ["queued", "running"];
const LOOK_MS = 1000;

let report = null;
let etag = null;
let framed = null;

async function load() {
  try {
    const answer = await ask("GET", ADDRESS);
    report = answer.data;
    etag = answer.headers.get("etag");
    show();
    if (UNFINISHED.includes(report.state)) setTimeout(load, LOOK_MS);
  } catch (problem) {
    byId("making").hidden = true;
    showProblem(problem);
  }
}

function show() {
  document.title = `${report.name} · Trainard`;
  byId("report-name").textContent = report.name;
  const isMade = report.state === "succeeded";
  fill(byId("state"), reportState(report.state));
  byId("making").hidden = !UNFINISHED.includes(report.state);
  byId("failure").hidden = report.state !== "failed";
  fill(byId("failure"), h("span", { lang: "en" }, report.failure ?? ""));
  byId("made").hidden = !isMade;
  showFacts();
  if (!isMade) return;
  fill(byId("headline"), headlineCards(report.headline), report.budget ? budgetCard(report.budget) : null);
  showFiles();
  showFrame();
  announce(t("reports.is_made"));
}

function showFacts() {
  const parts = [
    report.local_time ? slotElement() : null,
    h("a", { href: `/batches/${report.batch_id}` }, t("reports.this_batch")),
    report.baseline_batch_id
      ? h("a", { href: withQuery("/compare", { baseline: report.baseline_batch_id, candidate: report.batch_id }) }, t("reports.comparison"))
      : t("reports.without_baseline"),
    report.run_id ? h("a", { href: withQuery("/deliveries", { run: report.run_id }) }, t("reports.deliveries")) : null,
    h("span", {}, t("reports.made_by", { name: report.created_by }), " ", momentElement(report.created_at)),
  ].filter(Boolean);
  fill(byId("facts"), parts.flatMap((one, place) => (place ? [" · ", one] : [one])));
}

function slotElement() {
  const [before, after] = t("reports.of_slot", { slot: "\u0000", zone: report.zone }).split("\u0000");
  return h("span", {}, before, localElement(report.local_time), after);
}

function card(label, value, unit, ...more) {
  return h("section", { class: "card figure" }, h("h2", { class: "label" }, label), h("p", { class: "big" }, value, unit ? h("small", {}, ` ${unit}`) : null), more);
}

function headlineCards(headline) {
  const change = headline.gpu_hours_lost_change;
  const cost = headline.cost_of_loss_change;
  const cards = [
    card(t("reports.lost"), hours(headline.gpu_hours_lost_per_30_days), t("common.gpu_hours"),
      h("p", { class: "hint" }, t("reports.of_available", { share: percent(headline.loss_fraction), items: count(headline.items) }))),
    card(t("reports.cost"), costText(headline), null, costNotes(headline)),
  ];
  if (change) {
    cards.push(card(t("reports.change"), h("span", { class: toneOf(change.difference) }, signedHours(change.difference)), t("common.gpu_hours"),
      h("p", { class: "hint" }, t("reports.from_to", { past: hours(change.past), new: hours(change.new), relative: signedPercent(change.relative) }))));
  }
  if (cost?.difference) {
    cards.push(card(t("reports.cost_change"), signedMoney(cost.difference), null,
      cost.volume_effect ? h("p", { class: "hint" }, t("reports.effects", { volume: signedMoney(cost.volume_effect), price: signedMoney(cost.price_effect) })) : null));
  }
  return cards;
}

/** More lost is worse: the sign says it too. */
function toneOf(difference) {
  if (!difference) return null;
  return difference > 0 ? "worse" : "better";
}

function costText(headline) {
  if (headline.cost_of_loss_per_30_days) return money(headline.cost_of_loss_per_30_days);
  return h("span", { class: "quiet" }, headline.cost_status === "withheld" ? t("common.withheld") : named("reports.cost_", headline.cost_status));
}

function costNotes(headline) {
  if (headline.cost_status === "withheld") return h("p", { class: "hint" }, t("common.withheld_hint"));
  if (headline.priced_cost_per_30_days && !headline.cost_of_loss_per_30_days) {
    return h("p", { class: "hint" }, t("reports.at_least", { money: money(headline.priced_cost_per_30_days) }));
  }
  return null;
}

function budgetCard(budget) {
  const lines = [
    budget.gpu_hours_budget_per_30_days === null
      ? null
      : counted("reports.budget_of_hours", budget.gpu_hours_budget_per_30_days, hours(budget.gpu_hours_budget_per_30_days), { lost: hours(budget.gpu_hours_lost_per_30_days) }),
    budget.cost_budget_per_30_days
      ? t("reports.budget_of_money", { cost: money(budget.cost_of_loss_per_30_days), budget: money(budget.cost_budget_per_30_days) })
      : null,
    budget.reason_unknown ? named("reports.unknown_", budget.reason_unknown) : null,
    budget.status === "withheld" ? t("common.withheld_hint") : null,
  ].filter(Boolean);
  return h("section", { class: "card figure" }, h("h2", { class: "label" }, t("reports.budget")), h("p", { class: "big" }, budgetTag(budget.status)), lines.map((one) => h("p", { class: "hint" }, one)));
}

function showFiles() {
  const rows = FORMATS.map((format) => {
    const links = (format === "html" ? LANGUAGES : [null]).map((one) => {
      const href = withQuery(report.content_url, { format, language: one });
      const text = one ? `${format.toUpperCase()} · ${one.toUpperCase()}` : format.toUpperCase();
      const download = format === "html" ? `${report.name}-${one}.html` : true;
      return h("a", { class: "button", href, download, title: t(`reports.format_${format}`) }, text);
    });
    return links;
  });
  fill(byId("files"), rows.flat());
}

/** In the language of the page; the frame may run no script and ask for nothing. */
function showFrame() {
  const source = withQuery(report.content_url, { format: "html", language });
  byId("alone").href = source;
  if (framed === source) return;
  framed = source;
  fill(byId("frame"), h("iframe", { src: source, title: t("reports.frame", { name: report.name }), sandbox: "", tabindex: "0" }));
}

byId("delete").addEventListener("click", async (event) => {
  const button = event.target;
  if (!(await confirmed(t("reports.delete_question", { name: report.name }), t("common.delete")))) return;
  await attempt(button, async () => {
    await ask("DELETE", ADDRESS, { headers: { "If-Match": etag } });
    leaveSaying("/reports", t("common.was_deleted", { name: report.name }));
  });
});

await onlyWith("exports:create", [byId("delete")]);
load();
