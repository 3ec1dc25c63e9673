// One batch: its progress as it comes, what can be done with it, its faults and its results.

import { asked } from "./address.js";
import { get, withQuery } from "./api.js";
import { showActions } from "./batch_actions.js";
import { showFacts } from "./batch_facts.js";
import { follow, isRunning, pointsText, stateText } from "./batch_parts.js";
import { inputText } from "./columns.js";
import { announce, byId, h } from "./dom.js";
import { count } from "./format.js";
import { showProblem } from "./problems.js";
import { pricingChoice } from "./pricing_choice.js";
import { resultTable } from "./result_table.js";
import { labelOf } from "./scenario_table.js";
import { may } from "./session.js";
import { table } from "./table.js";
import { t } from "./texts.js";

const id = location.pathname.split("/").at(-1);
let current = null;
let stop = () => {};

async function showBatch(batch) {
  const isNew = current === null || current.state !== batch.state;
  const isMoved = current !== null && isNew;
  current = batch;
  byId("batch-name").textContent = batch.name;
  document.title = `${batch.name} · Trainard`;
  showFacts(byId("batch"), batch);
  if (isNew) await showActions(byId("batch-actions"), batch, changed);
  if (isMoved) announce(t("common.pair", { name: stateText(batch.state), text: pointsText(batch) }));
  if (isRunning(batch)) return;
  if (byId("results").hidden) await showRows(batch);
}

/** Each change in its turn: one that overtook another would show the past. */
let turn = Promise.resolve();
function changed(batch) {
  turn = turn.then(() => showBatch(batch)).catch(showProblem);
  return turn;
}

async function showRows(batch) {
  byId("results").hidden = false;
  if (batch.points_failed) showFaults(batch);
  let { currency } = batch;
  if (await may("costs:read")) {
    const pricing = await pricingChoice(batch, asked().get("pricing"));
    currency = pricing.currency;
    if (pricing.element) byId("results-table").before(pricing.element);
  }
  await resultTable(byId("results-table"), { batch, currency });
  if (location.hash === "#results") byId("results").scrollIntoView();
}

function showFaults(batch) {
  byId("faults").hidden = false;
  table(byId("faults-table"), {
    columns: [
      { key: "custom_id", label: t("results.item"), head: true, cell: (row) => row.custom_id },
      { key: "point", label: t("results.point"), num: true, cell: (row) => count(row.point) },
      {
        key: "inputs",
        label: t("results.inputs"),
        cell: (row) => Object.entries(row.inputs).map(([path, value]) => `${labelOf(path)} ${inputText(path, value)}`).join(", "),
      },
      { key: "pointer", label: t("results.pointer"), cell: (row) => h("code", {}, row.pointer) },
      { key: "detail", label: t("results.detail"), cell: (row) => row.detail },
    ],
    caption: t("results.faults_caption", { count: count(batch.points_failed) }),
    rowKey: (row) => row.point,
    pageSize: 25,
    load: ({ pageToken, pageSize, signal }) =>
      get(withQuery(`/v1/scenario-batches/${id}/errors`, { page_size: pageSize, page_token: pageToken }), { signal }),
  });
}

try {
  const batch = await get(`/v1/scenario-batches/${id}`);
  await showBatch(batch);
  stop = follow(batch, changed);
  addEventListener("pagehide", () => stop());
  if (!(await may("batches:write"))) {
    byId("permission").append(h("p", { class: "hint" }, t("common.not_permitted", { scope: "batches:write" })));
    byId("permission").hidden = false;
  }
} catch (problem) {
  byId("batch").replaceChildren();
  showProblem(problem);
}
