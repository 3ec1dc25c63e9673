// One schedule: what it says, when it comes, its ledger, its backfills.

import { asked, onMoved, setAsked } from "./address.js";
import { ask, create, get, withQuery } from "./api.js";
import { leaveSaying } from "./carried_word.js";
import { listed } from "./choices.js";
import { announce, byId, fill, h } from "./dom.js";
import { count, day, exact, hours, money, momentElement, percent } from "./format.js";
import { occurrenceTable } from "./occurrence_list.js";
import { showProblem } from "./problems.js";
import { backfills } from "./schedule_backfills.js";
import { knownChoices, scheduleForm } from "./schedule_form.js";
import { repricings } from "./schedule_repricings.js";
import { runLedger } from "./schedule_runs.js";
import { may } from "./session.js";
import { attempt, confirmed, onlyWith, onSubmit } from "./submit.js";
import { counted, has, named, t } from "./texts.js";
import { cronWords, localElement, utcTime } from "./wall_time.js";

const slug = decodeURIComponent(location.pathname.split("/").at(-1));
const ADDRESS = `/v1/schedules/${encodeURIComponent(slug)}`;

let schedule = null;
let etag = null;
let content = null;
let endpoints = new Map();
let ledger = null;

const mayWrite = await onlyWith("schedules:write", [], byId("permission"));
const seesCosts = await may("costs:read");

async function load() {
  const answer = await ask("GET", ADDRESS);
  // By name, as who reads the schedule knows them
  if (answer.data.deliveries.some((one) => one.kind === "webhook")) {
    const items = await listed("/v1/webhook-endpoints");
    endpoints = new Map(items.map((one) => [one.id, one.enabled ? one.name : t("schedules.endpoint_disabled", { name: one.name })]));
  }
  take(answer);
  await showOccurrences();
}

function take(answer) {
  schedule = answer.data;
  etag = answer.headers.get("etag");
  document.title = `${schedule.name} · Trainard`;
  byId("schedule-name").textContent = schedule.name;
  byId("is-paused").hidden = !schedule.paused;
  byId("schedule-actions").hidden = !mayWrite;
  byId("pause").hidden = schedule.paused;
  byId("resume").hidden = !schedule.paused;
  byId("to-reports").href = withQuery("/reports", { schedule: slug });
  byId("to-deliveries").href = withQuery("/deliveries", { schedule: slug });
  byId("to-history").href = withQuery("/history", { schedule: slug });
  showFacts();
  showForm();
}

function showFacts() {
  const next = schedule.next_occurrence;
  const facts = [
    ["slug", h("code", {}, schedule.slug)],
    ["cron", h("span", {}, cronWords(schedule), h("span", { class: "hint" }, h("code", {}, schedule.cron), ` · ${schedule.zone}`))],
    ["next", next ? h("span", {}, localElement(next.local), h("span", { class: "hint" }, " = ", utcTime(next.at))) : t("schedules.none_while_paused")],
    ["batch", counted("schedules.items", schedule.batch.items.length, count(schedule.batch.items.length), { currency: schedule.batch.currency ?? t("schedules.no_currency") })],
    ["profiles_as_of", named("schedules.profiles_as_of_", schedule.profiles_as_of)],
    ["start_in_days", exact(schedule.start_in_days)],
    ["baseline_kind", baselineText(schedule.baseline)],
    ["misfire_policy", named("schedules.misfire_policy_", schedule.misfire_policy)],
    ["concurrency_policy", named("schedules.concurrency_policy_", schedule.concurrency_policy)],
    ["budget_facts", budgetText()],
    ["deliveries", deliveriesText()],
    ["updated_at", momentElement(schedule.updated_at)],
  ];
  fill(byId("facts"), facts.flatMap(([key, value]) => [h("dt", {}, t(`schedules.${key}`)), h("dd", {}, value)]));
  const warnings = schedule.warnings ?? [];
  fill(byId("warnings"), warnings.map(warningElement));
}

/** By its code, with what it is about; what is newer than the texts as the API says it. */
function warningElement({ code, pointer, detail }) {
  const said = has(`schedules.warning_${code}`) ? h("span", {}, t(`schedules.warning_${code}`)) : h("span", { lang: "en" }, detail);
  const about = warnedOf(pointer);
  return h("p", { class: "advice" }, about ? t("common.pair", { name: about, text: "" }) : null, said);
}

/** The delivery, or the profile of the item, that a warning points at; null: the whole schedule. */
function warnedOf(pointer) {
  const [, kind, place] = /^\/(deliveries|batch\/items)\/(\d+)/.exec(pointer) ?? [];
  if (kind === "deliveries") return t("schedules.delivery_nth", { number: Number(place) + 1, kind: named("schedules.delivery_", schedule.deliveries[place].kind) });
  return kind ? schedule.batch.items[place].profile : null;
}

function baselineText(baseline) {
  const text = named("schedules.baseline_", baseline?.kind ?? "none");
  if (baseline?.on) return t("common.pair", { name: text, text: day(baseline.on) });
  if (!baseline?.run_id) return text;
  const run = h("span", {}, baseline.run_id);
  // By its slot, as the ledger calls it; where that cannot be read its id stays
  get(`${ADDRESS}/runs/${baseline.run_id}`).then(
    ({ batch_id, local_time }) => run.replaceChildren(batch_id ? h("a", { href: `/batches/${batch_id}` }, localElement(local_time)) : localElement(local_time)),
    () => {},
  );
  return h("span", {}, t("common.pair", { name: text, text: "" }), run);
}

function budgetText() {
  if (schedule.budget_withheld) return h("span", { title: t("common.withheld_hint") }, t("common.withheld"));
  const budget = schedule.budget;
  if (!budget) return t("schedules.no_budget");
  const parts = [];
  if (budget.gpu_hours_lost_per_30_days !== null) parts.push(t("schedules.budget_hours", { hours: hours(budget.gpu_hours_lost_per_30_days) }));
  if (budget.cost_of_loss_per_30_days) parts.push(t("schedules.budget_money", { money: money(budget.cost_of_loss_per_30_days) }));
  return parts.join(" · ");
}

function deliveriesText() {
  if (!schedule.deliveries.length) return t("schedules.no_deliveries");
  return h("ul", { class: "plain" }, schedule.deliveries.map((one) => {
    const endpoint = () => endpoints.get(one.endpoint_id) ?? t("schedules.endpoint_gone", { id: one.endpoint_id });
    const to = { email: () => one.to.join(", "), directory: () => one.folder, webhook: endpoint }[one.kind]();
    const files = (one.attach ?? one.formats ?? []).map((format) => format.toUpperCase()).join(", ");
    const facts = [named("schedules.delivery_", one.kind), to, named("schedules.when_", one.when), ...limitsOf(one), files, t(one.include_costs ? "schedules.with_money" : "schedules.without_money")];
    return h("li", {}, facts.filter(Boolean).join(" · "));
  }));
}

function limitsOf({ threshold }) {
  const { gpu_hours_lost_per_30_days, relative } = threshold ?? {};
  return [
    gpu_hours_lost_per_30_days ? t("schedules.limit_hours", { hours: hours(gpu_hours_lost_per_30_days) }) : null,
    relative ? t("schedules.limit_relative", { share: percent(relative) }) : null,
  ];
}

/** The next 20 slots, after a day that the address may name. */
async function showOccurrences() {
  const after = asked().get("after");
  byId("after").value = after ?? "";
  const found = await get(withQuery(`${ADDRESS}/occurrences`, { count: 20, after: after ? `${after}T00:00:00Z` : null }));
  if (after !== asked().get("after")) return;
  fill(byId("occurrences"), occurrenceTable(found, t(found.paused ? "schedules.occurrences_paused" : "schedules.preview_caption")));
}

async function showForm() {
  const isOpen = asked().has("edit") && mayWrite;
  byId("edit-schedule").hidden = !isOpen;
  byId("edit").setAttribute("aria-expanded", String(isOpen));
  if (!isOpen) return;
  content ??= knownChoices().then((choices) => scheduleForm({ isNew: false, address: ADDRESS, seesCosts, isBudgetWithheld: Boolean(schedule.budget_withheld), ...choices }));
  try {
    const form = await content;
    fill(byId("schedule-fields"), form.element);
    form.show(schedule);
  } catch (problem) {
    content = null;
    showProblem(problem);
  }
}

async function toggle(is) {
  setAsked({ edit: is ? "yes" : null }, { push: true });
  await showForm();
  if (is) byId("edit-schedule").querySelector("input")?.focus();
  else byId("edit").focus();
}

/** What was changed only: that alone is checked, and money is touched by none who may not see it. */
function changesOf(wanted) {
  return Object.fromEntries(
    Object.entries(wanted).filter(([key, value]) => value !== undefined && JSON.stringify(sorted(value)) !== JSON.stringify(sorted(schedule[key]))),
  );
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

async function act(button, sentence, work, successor) {
  const done = async () => {
    take(await work());
    await showOccurrences();
    announce(t(sentence));
  };
  await attempt(button, done, null, successor);
}

const ifMatch = () => ({ headers: { "If-Match": etag } });
byId("edit").addEventListener("click", () => toggle(byId("edit-schedule").hidden));
byId("cancel").addEventListener("click", () => toggle(false));
byId("pause").addEventListener("click", (event) => act(event.target, "schedules.was_paused", () => ask("POST", `${ADDRESS}/pause`), "resume"));
byId("resume").addEventListener("click", (event) => act(event.target, "schedules.was_resumed", () => ask("DELETE", `${ADDRESS}/pause`, ifMatch()), "pause"));
byId("run").addEventListener("click", (event) =>
  attempt(event.target, async () => {
    await create(`${ADDRESS}/runs`);
    announce(t("schedules.run_began"));
    await ledger.reload();
  }),
);
byId("delete").addEventListener("click", async (event) => {
  const button = event.target;
  if (!(await confirmed(t("schedules.delete_question", { name: schedule.name }), t("common.delete")))) return;
  await attempt(button, async () => {
    await ask("DELETE", ADDRESS, ifMatch());
    leaveSaying("/schedules", t("common.was_deleted", { name: schedule.name }));
  });
});
byId("after").addEventListener("change", async () => {
  setAsked({ after: byId("after").value });
  await showOccurrences().catch(showProblem);
});
onSubmit(byId("schedule-form"), async () => {
  const answer = await ask("PATCH", ADDRESS, { body: changesOf((await content).read()), ...ifMatch() });
  setAsked({ edit: null });
  take(answer);
  await showOccurrences();
  announce(t("schedules.saved"));
  byId("main").focus();
});
onMoved(() => {
  if (!schedule) return;
  showForm();
  showOccurrences().catch(showProblem);
});

try {
  await load();
  ledger = runLedger(byId("runs"), byId("run-filters"), { address: ADDRESS, mayWrite, changed: () => ask("GET", ADDRESS).then((answer) => !asked().has("edit") && take(answer)).catch(showProblem) });
  repricings(byId("repricing"), byId("repricing-form"), { address: ADDRESS, slug, seesCosts });
  backfills(byId("backfills"), byId("backfill-form"), { address: ADDRESS, mayWrite, began: () => ledger.reload() });
} catch (problem) {
  showProblem(problem);
}
