// Slots of past days that are run, or run again: first shown, then begun, then followed.

import { ask, create, get, withQuery } from "./api.js";
import { announce, byId, fill, h } from "./dom.js";
import { fieldset, hint } from "./form.js";
import { count, day, exact, number } from "./format.js";
import { noticeNodes, reasonElement, reasonNodes } from "./reasons.js";
import { runState } from "./run_states.js";
import { attempt, onSubmit } from "./submit.js";
import { table } from "./table.js";
import { named, t } from "./texts.js";
import { localElement } from "./wall_time.js";

const LOOK_MS = 2000;
const RUNNING = ["running", "canceling"];

export function backfills(place, form, { address, mayWrite, began }) {
  const path = `${address}/backfills`;
  const plan = byId("backfill-plan");
  const fields = fieldset(
    [
      { pointer: "/first_on", kind: "date", required: true },
      { pointer: "/last_on", kind: "date", required: true },
      { pointer: "/reprocess", kind: "select", options: ["none", "failed", "all"].map((one) => [one, named("schedules.reprocess_", one)]) },
      { pointer: "/max_running", kind: "number", step: 1, min: 1, max: 50, required: true, value: 4 },
      { pointer: "/newest_first", kind: "check" },
      { pointer: "/deliver", kind: "check" },
    ].map((one) => ({ ...one, label: t(`schedules.backfill_${one.pointer.slice(1)}`), hint: hint(`schedules.backfill_${one.pointer.slice(1)}_hint`) })),
  );
  let list = null;

  function show() {
    list = table(place, {
      columns: [
        { key: "days", label: t("schedules.days"), head: true, cell: (row) => `${day(row.first_on)} – ${day(row.last_on)}` },
        { key: "state", label: t("schedules.became"), cell: (row) => h("div", {}, runState(row.state), reasonElement(row.held_coded, row.held)) },
        { key: "slots", label: t("schedules.slots"), num: true, cell: (row) => exact(row.slots) },
        { key: "runs", label: t("schedules.runs"), cell: runsOf },
        { key: "actions", label: t("schedules.actions"), cell: cancelOf },
      ],
      caption: t("schedules.backfills_caption"),
      empty: t("schedules.no_backfills"),
      pageSize: 25,
      load: ({ pageToken, pageSize, signal }) => get(withQuery(path, { page_size: pageSize, page_token: pageToken }), { signal }),
      again: { everyMs: LOOK_MS, when: (row) => RUNNING.includes(row.state) },
    });
  }

  function runsOf(row) {
    const parts = Object.entries(row.runs).filter(([, value]) => value);
    if (!parts.length) return "–";
    return h("span", { class: "tags" }, parts.map(([key, value]) => h("span", { class: "tag" }, t("common.pair", { name: named("schedules.state_", key), text: count(value) }))));
  }

  function cancelOf(row) {
    if (!mayWrite || row.state !== "running") return "–";
    const label = t("schedules.cancel_backfill", { from: day(row.first_on), until: day(row.last_on) });
    const cancel = (event) =>
      attempt(event.target, async () => {
        await ask("POST", `${path}/${row.id}/cancellation`);
        await list.reload();
      });
    return h("button", { type: "button", class: "link", "aria-label": label, onclick: cancel }, t("common.cancel"));
  }

  async function check() {
    const { data } = await create(`${path}?validate_only=true`, fields.read());
    fill(plan, planned(data));
    announce(plan.querySelector("p").textContent);
  }

  function planned(found) {
    const sentence = t("schedules.plan", {
      run: count(found.slots_run),
      left: count(found.slots_left),
      points: count(found.points_total),
      seconds: number(found.estimated_s, { maximumSignificantDigits: 2 }),
    });
    const rows = found.slots.map((one) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, localElement(one.local_time), one.dst ? h("span", { class: "tag warn" }, t(`schedules.dst_${one.dst}`)) : null),
        h("td", {}, h("span", { class: one.runs ? "tag good" : "tag" }, t(one.runs ? "schedules.runs_it" : "schedules.leaves_it"))),
        h("td", {}, reasonNodes(one.reason_coded, one.reason)),
      ),
    );
    const heads = ["slot", "would", "why"].map((key) => h("th", { scope: "col" }, t(`schedules.${key}`)));
    return [
      h("p", {}, h("strong", {}, sentence)),
      found.held ? h("p", { class: "advice" }, reasonNodes(found.held_coded, found.held)) : null,
      found.warnings.map((one) => h("p", { class: "advice" }, noticeNodes(one))),
      h("div", { class: "scroll plan", tabindex: "0", role: "region", "aria-label": sentence }, h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows))),
    ];
  }

  form.hidden = !mayWrite;
  fill(byId("backfill-fields"), fields.element);
  onSubmit(form, async (button) => {
    fill(plan);
    if (button?.value === "check") {
      await check();
      return;
    }
    await create(path, fields.read());
    announce(t("schedules.backfill_began"));
    await Promise.all([list.reload(), began()]);
  });
  show();
}
