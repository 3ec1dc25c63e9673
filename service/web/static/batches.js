// The batches, newest first, and a new one out of JSON.

import { get, withQuery } from "./api.js";
import { asked, onMoved, setAsked } from "./address.js";
import { isRunning, progressOf, STATES, stateTag, stateText } from "./batch_parts.js";
import { batchForm } from "./batch_form.js";
import { byId, fill, h, settled } from "./dom.js";
import { count, day, momentElement } from "./format.js";
import { may } from "./session.js";
import { table } from "./table.js";
import { t } from "./texts.js";

const LOOK_AGAIN_MS = 2500;

const state = byId("filter-state");
const name = byId("filter-name");
fill(
  state,
  h("option", { value: "" }, t("results.any_state")),
  STATES.map((one) => h("option", { value: one }, stateText(one))),
);

function showFilters() {
  state.value = asked().get("state") ?? "";
  name.value = asked().get("name") ?? "";
}

showFilters();
onMoved(showFilters);

const columns = [
  {
    key: "name",
    label: t("results.name"),
    head: true,
    cell: (batch) => h("a", { href: `/batches/${batch.id}` }, batch.name),
  },
  { key: "state", label: t("results.state"), cell: (batch) => stateTag(batch.state) },
  { key: "items", label: t("results.items"), num: true, cell: (batch) => count(batch.counts.total) },
  { key: "points", label: t("results.points"), num: true, cell: progressOf },
  {
    key: "failed",
    label: t("results.points_failed"),
    num: true,
    cell: (batch) => h("span", { class: batch.points_failed ? "worse" : "quiet" }, count(batch.points_failed)),
  },
  { key: "start_on", label: t("results.start_on"), cell: (batch) => day(batch.start_on) },
  { key: "created_at", label: t("results.created_at"), cell: (batch) => momentElement(batch.created_at) },
  { key: "actions", label: t("results.actions"), cell: actionsOf },
];

function actionsOf(batch) {
  const about = (text) => t("common.pair", { name: text, text: batch.name });
  const compare = h(
    "a",
    { href: withQuery("/compare", { candidate: batch.id }), "aria-label": about(t("results.compare")) },
    t("results.compare"),
  );
  const results = h(
    "a",
    { href: `/batches/${batch.id}#results`, "aria-label": about(t("results.results")) },
    t("results.results"),
  );
  return h("span", { class: "links" }, isRunning(batch) ? null : [results, compare]);
}

const shown = table(byId("batches"), {
  columns,
  caption: t("results.batches_caption"),
  empty: t("results.no_batches"),
  address: "",
  pageSize: 25,
  filters: () => ({ state: state.value, name: name.value.trim() }),
  load: ({ pageToken, pageSize, filters, signal }) =>
    get(withQuery("/v1/scenario-batches", { ...filters, page_size: pageSize, page_token: pageToken }), { signal }),
  again: { everyMs: LOOK_AGAIN_MS, when: isRunning },
});

function filtered(push) {
  setAsked({ state: state.value, name: name.value.trim() }, { push });
  shown.filter();
}

state.addEventListener("change", () => filtered(true));
name.addEventListener("input", settled(() => filtered(false), 300));
byId("batch-filters").addEventListener("submit", (event) => event.preventDefault());

const isAllowed = await may("batches:write");
if (isAllowed) {
  const open = byId("open-new");
  const section = byId("new-batch");
  open.hidden = false;
  open.addEventListener("click", () => {
    section.hidden = !section.hidden;
    open.setAttribute("aria-expanded", String(!section.hidden));
    if (!section.hidden) byId("batch-json").focus();
  });
  batchForm();
} else {
  fill(byId("permission"), h("p", { class: "hint" }, t("common.not_permitted", { scope: "batches:write" }))).hidden = false;
}
