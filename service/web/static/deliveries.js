// The log of deliveries, one of them in full, and the webhook endpoints of the team.

import { asked, onMoved, setAsked } from "./address.js";
import { get, withQuery } from "./api.js";
import { listed } from "./choices.js";
import { deliveryActions } from "./delivery_actions.js";
import { deliveryDetail } from "./delivery_detail.js";
import { deliveryState, isMoving, KINDS, STATES, targetText } from "./delivery_words.js";
import { byId, fill, h, settled } from "./dom.js";
import { exact, moment, momentElement } from "./format.js";
import { showProblem } from "./problems.js";
import { reasonElement } from "./reasons.js";
import { session } from "./session.js";
import { onlyWith } from "./submit.js";
import { table } from "./table.js";
import { named, t } from "./texts.js";
import { webhookEndpoints } from "./webhook_endpoints.js";

const LOOK_MS = 2000;
const NAMES = ["state", "kind", "endpoint", "schedule"];

const { scopes } = await session();
const filters = Object.fromEntries(NAMES.map((name) => [name, byId(`filter-${name}`)]));
let endpoints = new Map();
let list = null;

const columns = [
  { key: "created_at", label: t("deliveries.created_at"), head: true, cell: whenOf },
  { key: "state", label: t("deliveries.state"), cell: stateOf },
  { key: "to", label: t("deliveries.to"), cell: toOf },
  { key: "run", label: t("deliveries.of"), cell: ofRun },
  { key: "attempts", label: t("deliveries.attempts"), num: true, cell: (row) => (row.attempts === null ? t("common.withheld") : exact(row.attempts)) },
  { key: "actions", label: t("deliveries.actions"), cell: actionsOf },
];

function whenOf(row) {
  return h("a", { href: withQuery("/deliveries", { delivery: row.id }), onclick: (event) => openOne(event, row.id) }, momentElement(row.created_at));
}

function toOf(row) {
  return h("div", { class: "told" }, targetText(row, endpoints), h("div", { class: "hint" }, `${named("deliveries.kind_", row.kind)} · ${named("deliveries.event_", row.event.replaceAll(".", "_"))}`));
}

function ofRun(row) {
  const links = [
    row.schedule ? h("a", { href: `/schedules/${row.schedule}` }, row.schedule) : null,
    row.report_id ? h("a", { href: `/reports/${row.report_id}` }, t("deliveries.report")) : null,
  ].filter(Boolean);
  return links.length ? h("div", {}, links.flatMap((one, place) => (place ? [" · ", one] : [one]))) : "–";
}

function stateOf(row) {
  const next = row.state === "pending" && row.next_attempt_at ? h("div", { class: "hint" }, t("deliveries.next_attempt"), " ", momentElement(row.next_attempt_at)) : null;
  const why = row.state === "delivered" ? null : reasonElement(row.last_error_coded, row.last_error);
  const reason = row.reason === null ? h("div", { class: "hint", title: t("common.withheld_hint") }, t("common.withheld")) : reasonElement(row.reason_coded, row.reason);
  return h("div", { class: "told" }, deliveryState(row.state), reason, why, next);
}

function actionsOf(row) {
  const about = `${targetText(row, endpoints)}, ${moment(row.created_at)}`;
  const links = deliveryActions(row, { scopes, named: about, changed: () => list.reload() });
  return links.length ? h("div", { class: "acts" }, links) : "–";
}

function openOne(event, id) {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  setAsked({ delivery: id }, { push: true });
  detail.show(id, { focus: true });
}

function readAddress() {
  byId("of-run").hidden = !asked().has("run");
  for (const name of NAMES) filters[name].value = asked().get(name) ?? "";
}

function filter() {
  setAsked(Object.fromEntries(NAMES.map((name) => [name, filters[name].value.trim()])));
  list.filter();
}

function choices(select, values, texts) {
  fill(select, h("option", { value: "" }, t("deliveries.any")), values.map((one) => h("option", { value: one }, named(texts, one))));
}

/** Names of the endpoints, and the choice among them; one that is gone is still asked for by its id. */
async function readEndpoints() {
  const items = await listed("/v1/webhook-endpoints");
  endpoints = new Map(items.map((one) => [one.id, one.name]));
  const gone = asked().get("endpoint");
  const known = gone && !endpoints.has(gone) ? [[gone, t("deliveries.endpoint_gone")]] : [];
  fill(filters.endpoint, h("option", { value: "" }, t("deliveries.any")), [...endpoints, ...known].map(([id, name]) => h("option", { value: id }, name)));
  filters.endpoint.value = gone ?? "";
}

async function suggestSchedules() {
  const known = await listed("/v1/schedules");
  fill(byId("schedules"), known.map((one) => h("option", { value: one.slug }, one.name)));
}

const detail = deliveryDetail({ scopes, endpoints: () => endpoints, changed: () => list.reload({ quiet: true }) });

async function endpointsChanged() {
  await readEndpoints();
  // Not quietly, which would leave the same rows with the names of before
  await list.reload();
}

choices(filters.state, STATES, "deliveries.state_");
choices(filters.kind, KINDS, "deliveries.kind_");
readAddress();
await readEndpoints().catch(showProblem);
list = table(byId("log"), {
  columns,
  caption: t("deliveries.caption"),
  empty: t("deliveries.empty"),
  address: "",
  pageSize: 25,
  // Of one run only by a link, which can be left again
  filters: () => ({ ...Object.fromEntries(NAMES.map((name) => [name, filters[name].value.trim()])), run: asked().get("run") }),
  load: ({ pageToken, filters: chosen, pageSize, signal }) => get(withQuery("/v1/deliveries", { ...chosen, page_size: pageSize, page_token: pageToken }), { signal }),
  again: { everyMs: LOOK_MS, when: isMoving },
});
for (const name of ["state", "kind", "endpoint"]) filters[name].addEventListener("change", filter);
filters.schedule.addEventListener("input", settled(filter, 400));
byId("delivery-close").addEventListener("click", () => {
  setAsked({ delivery: null });
  detail.show(null);
  byId("log-title").tabIndex = -1;
  byId("log-title").focus();
});
const ends = webhookEndpoints({
  scopes,
  changed: endpointsChanged,
  sent: async (delivery) => {
    setAsked({ delivery: delivery.id }, { push: true });
    await Promise.all([detail.show(delivery.id, { focus: true }), list.reload({ quiet: true })]);
  },
  ofEndpoint: (id) => {
    filters.endpoint.value = id;
    filter();
    byId("log-title").tabIndex = -1;
    byId("log-title").focus();
    byId("log-title").scrollIntoView();
  },
});
onMoved(() => {
  readAddress();
  detail.show(asked().get("delivery"));
  ends.show();
});
await onlyWith("webhooks:write", [], byId("permission"));
detail.show(asked().get("delivery"));
ends.show();
suggestSchedules().catch(showProblem);
