// The list of reports, and a new one of two batches.

import { asked, onMoved, setAsked } from "./address.js";
import { create, get, withQuery } from "./api.js";
import { batchOption, findBatches } from "./batch_choices.js";
import { listed } from "./choices.js";
import { byId, fill, h, settled } from "./dom.js";
import { fieldset, hint } from "./form.js";
import { momentElement } from "./format.js";
import { showProblem } from "./problems.js";
import { reportState } from "./report_states.js";
import { may } from "./session.js";
import { onlyWith, onSubmit } from "./submit.js";
import { table } from "./table.js";
import { named, t } from "./texts.js";
import { localElement } from "./wall_time.js";

const REPORTS = "/v1/reports";
const STATES = ["queued", "running", "succeeded", "failed"];
const ENDED = ["succeeded", "partially_failed"];
const LOOK_MS = 2000;

const section = byId("new-report");
const open = byId("open-new");
const filters = { schedule: byId("filter-schedule"), state: byId("filter-state") };

filters.state.append(...STATES.map((one) => h("option", { value: one }, named("reports.state_", one))));

const columns = [
  { key: "name", label: t("reports.name"), head: true, cell: (row) => h("a", { href: `/reports/${row.id}` }, row.name) },
  { key: "state", label: t("reports.state"), cell: (row) => reportState(row.state) },
  { key: "slot", label: t("reports.slot"), cell: (row) => (row.local_time ? localElement(row.local_time) : h("span", { class: "quiet" }, t("reports.by_hand"))) },
  { key: "batches", label: t("reports.batches"), cell: batchesOf },
  { key: "created_at", label: t("reports.created_at"), cell: (row) => h("div", {}, momentElement(row.created_at), h("div", { class: "hint" }, row.created_by)) },
];

function batchesOf(row) {
  const batch = h("a", { href: `/batches/${row.batch_id}` }, t("reports.this_batch"));
  if (!row.baseline_batch_id) return batch;
  const compared = withQuery("/compare", { baseline: row.baseline_batch_id, candidate: row.batch_id });
  return h("span", {}, batch, " · ", h("a", { href: compared }, t("reports.comparison")));
}

function readAddress() {
  filters.schedule.value = asked().get("schedule") ?? "";
  filters.state.value = asked().get("state") ?? "";
  section.hidden = !asked().has("new") || open.hidden;
  open.setAttribute("aria-expanded", String(!section.hidden));
}

readAddress();
const list = table(byId("reports"), {
  columns,
  caption: t("reports.caption"),
  empty: t("reports.empty"),
  address: "",
  filters: () => ({ schedule: filters.schedule.value.trim(), state: filters.state.value, batch: asked().get("of_batch") }),
  load: ({ pageToken, filters: chosen, pageSize, signal }) =>
    get(withQuery(REPORTS, { ...chosen, page_size: pageSize, page_token: pageToken }), { signal }),
  again: { everyMs: LOOK_MS, when: (row) => ["queued", "running"].includes(row.state) },
});
function filter() {
  setAsked({ schedule: filters.schedule.value.trim(), state: filters.state.value });
  list.filter();
}
filters.schedule.addEventListener("input", settled(filter, 400));
filters.state.addEventListener("change", filter);

/** Schedules to filter by: what is typed is a slug or an id. */
async function suggestSchedules() {
  if (!(await may("schedules:read"))) return;
  const known = await listed("/v1/schedules");
  byId("schedules").replaceChildren(...known.map((one) => h("option", { value: one.slug }, one.name)));
}

function described(one) {
  const name = one.name ?? one.pointer.slice(1).replaceAll("/", "_");
  return { ...one, label: t(`reports.${name}`), hint: hint(`reports.${name}_hint`) };
}

/** Batches that have results. */
const batch = {
  kind: "picked",
  find: (text) => findBatches(text, hasResults),
  optionOf: async (id) => batchOption(await get(`/v1/scenario-batches/${encodeURIComponent(id)}`)),
};

function hasResults({ state }) {
  return ENDED.includes(state);
}

function pricingAsked(name) {
  const text = asked().get(name);
  return /^[1-9]\d*$/.test(text ?? "") ? Number(text) : undefined;
}

async function buildForm() {
  const newest = asked().get("batch") ?? (await findBatches("", hasResults))[0]?.value;
  const seesCosts = await may("costs:read");
  const money = seesCosts
    ? [
        { pointer: "/pricing", kind: "number", step: 1, min: 1, absent: true },
        { pointer: "/baseline_pricing", kind: "number", step: 1, min: 1, absent: true },
        { pointer: "/budget/cost_of_loss_per_30_days/amount", kind: "decimal", currency: "/budget/cost_of_loss_per_30_days/currency", name: "budget_amount", absent: true },
        { pointer: "/budget/cost_of_loss_per_30_days/currency", kind: "text", name: "budget_currency", absent: true, list: ["EUR", "USD", "GBP", "CHF"] },
      ]
    : [];
  const content = fieldset(
    [
      { pointer: "/batch_id", ...batch, required: true },
      { pointer: "/baseline_batch_id", ...batch, none: t("reports.no_baseline") },
      { pointer: "/name", kind: "text", absent: true },
      { pointer: "/report/language", kind: "select", options: [["en", t("common.in_en")], ["fr", t("common.in_fr")]] },
      { pointer: "/report/movers", kind: "number", step: 1, min: 1, max: 100, required: true },
      { pointer: "/budget/gpu_hours_lost_per_30_days", kind: "number", name: "budget_gpu_hours", above: 0, absent: true },
      ...money,
      { pointer: "/report/remedies", kind: "check" },
    ].map(described),
  );
  fill(byId("report-fields"), content.element);
  content.show({
    batch_id: newest,
    baseline_batch_id: asked().get("baseline"),
    ...(seesCosts ? { pricing: pricingAsked("pricing"), baseline_pricing: pricingAsked("baseline_pricing") } : {}),
    report: { language: document.documentElement.lang, movers: 10, remedies: true },
  });
  return content;
}

let content = null;
async function openForm(isFocused = false) {
  readAddress();
  if (section.hidden) return;
  try {
    content ??= await buildForm();
    if (isFocused) section.querySelector("input").focus();
  } catch (problem) {
    showProblem(problem);
  }
}

onSubmit(byId("report-form"), async () => {
  const { data } = await create(REPORTS, content.read());
  location.assign(`/reports/${data.id}`);
});
open.addEventListener("click", () => {
  setAsked({ new: section.hidden ? "yes" : null }, { push: true });
  openForm(true);
});
onMoved(() => openForm());
await onlyWith("exports:create", [open], byId("permission"));
openForm();
suggestSchedules().catch(showProblem);
