// The ledger of a schedule: every slot that came, what became of it, and why.

import { asked, onMoved, setAsked } from "./address.js";
import { ask, get, withQuery } from "./api.js";
import { h } from "./dom.js";
import { count, exact } from "./format.js";
import { noticeNodes, reasonElement } from "./reasons.js";
import { budgetTag, runState } from "./run_states.js";
import { attempt } from "./submit.js";
import { table } from "./table.js";
import { named, t } from "./texts.js";
import { localElement, localTime, utcTime } from "./wall_time.js";

const UNFINISHED = ["due", "running", "reporting"];
const STATES = [...UNFINISHED, "succeeded", "partially_failed", "failed", "canceled", "misfired", "skipped", "replaced"];
const KINDS = ["scheduled", "manual", "backfill"];
const LOOK_MS = 1500;

/** `{reload()}`; while a run has not ended the page looks again by itself. */
export function runLedger(place, filterPlace, { address, mayWrite, changed }) {
  const state = choice("state", STATES, "schedules.state_");
  const kind = choice("kind", KINDS, "schedules.kind_");
  filterPlace.replaceChildren(state.element, kind.element);
  let last = "";
  let list = null;

  const path = (filters, pageSize, pageToken) => withQuery(`${address}/runs`, { ...filters, page_size: pageSize, page_token: pageToken });
  const filters = () => ({ state: state.select.value, kind: kind.select.value });

  function choice(name, values, texts) {
    const options = [h("option", { value: "" }, t("schedules.all")), ...values.map((one) => h("option", { value: one }, named(texts, one)))];
    const select = h("select", { id: `run-${name}` }, options);
    select.value = asked().get(`run_${name}`) ?? "";
    select.addEventListener("change", () => {
      setAsked({ [`run_${name}`]: select.value });
      list.filter();
    });
    return { select, element: h("div", { class: "field" }, h("label", { for: select.id }, t(`schedules.run_${name}`)), select) };
  }

  function slotOf(row) {
    return h("div", {}, localElement(row.local_time), h("div", { class: "hint" }, utcTime(row.scheduled_for)));
  }

  function becameOf(row) {
    const retry = row.attempt > 1 ? h("div", { class: "hint" }, t("schedules.attempt", { attempt: exact(row.attempt) })) : null;
    return h("div", {}, runState(row.state), reasonElement(row.reason_coded, row.reason), retry, row.warnings.map((one) => h("div", { class: "hint" }, noticeNodes(one))));
  }

  function pointsOf(row) {
    if (!row.batch) return "–";
    const shown = t("schedules.points", { done: count(row.batch.points_done), total: count(row.batch.points_total) });
    const link = h("a", { href: `/batches/${row.batch_id}` }, shown);
    if (!UNFINISHED.includes(row.state)) return link;
    return h("div", {}, link, h("progress", { value: row.batch.points_done, max: Math.max(row.batch.points_total, 1), "aria-label": shown }));
  }

  function reportOf(row) {
    if (row.report_id) {
      const told = { href: withQuery("/deliveries", { run: row.id }), "aria-label": t("schedules.deliveries_of", { slot: localTime(row.local_time) }) };
      return h("div", {}, h("a", { href: `/reports/${row.report_id}` }, t("schedules.report")), " · ", h("a", told, t("schedules.to_deliveries")));
    }
    if (mayWrite && ["due", "running"].includes(row.state)) {
      const label = t("schedules.cancel_run", { slot: localTime(row.local_time) });
      return h("button", { type: "button", class: "link", "aria-label": label, onclick: (event) => cancel(event.target, row) }, t("common.cancel"));
    }
    return "–";
  }

  async function cancel(button, row) {
    await attempt(button, async () => {
      await ask("POST", `${address}/runs/${row.id}/cancellation`);
      await list.reload();
    });
  }

  list = table(place, {
    columns: [
      { key: "slot", label: t("schedules.slot"), head: true, cell: slotOf },
      { key: "kind", label: t("schedules.run_kind"), cell: (row) => named("schedules.kind_", row.kind) },
      { key: "state", label: t("schedules.became"), cell: becameOf },
      { key: "points", label: t("schedules.batch"), cell: pointsOf },
      { key: "budget", label: t("schedules.part_budget"), cell: (row) => budgetTag(row.budget_status) },
      { key: "report", label: t("schedules.report"), cell: reportOf },
    ],
    caption: t("schedules.runs_caption"),
    empty: t("schedules.no_runs"),
    address: "run_",
    filters,
    load: ({ pageToken, filters: chosen, pageSize, signal }) => get(path(chosen, pageSize, pageToken), { signal }),
    loaded: (answer) => {
      const now = JSON.stringify(answer.items);
      if (last && now !== last) changed();
      last = now;
    },
    again: { everyMs: LOOK_MS, when: (row) => UNFINISHED.includes(row.state) },
  });
  onMoved(() => {
    state.select.value = asked().get("run_state") ?? "";
    kind.select.value = asked().get("run_kind") ?? "";
  });
  return list;
}
