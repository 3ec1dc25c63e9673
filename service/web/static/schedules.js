// The list of schedules, and a new one.

import { asked, onMoved, setAsked } from "./address.js";
import { create, get, withQuery } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { runState } from "./run_states.js";
import { knownChoices, scheduleForm } from "./schedule_form.js";
import { may } from "./session.js";
import { onlyWith, onSubmit } from "./submit.js";
import { table } from "./table.js";
import { t } from "./texts.js";
import { cronWords, localElement, utcTime } from "./wall_time.js";

const SCHEDULES = "/v1/schedules";
const EXAMPLE = {
  cron: "30 2 * * *",
  zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  start_in_days: 0,
  profiles_as_of: "newest",
  misfire_policy: "run_latest",
  misfire_max_runs: 10,
  misfire_grace_s: 300,
  concurrency_policy: "queue",
  baseline: { kind: "previous" },
  report: { language: document.documentElement.lang, movers: 10, remedies: true },
  deliveries: [],
  budget: null,
};
const section = byId("new-schedule");
const open = byId("open-new");
const choice = byId("paused");

const columns = [
  { key: "slug", label: t("schedules.slug"), head: true, cell: (row) => h("a", { href: `/schedules/${row.slug}` }, row.slug) },
  { key: "name", label: t("schedules.name"), cell: (row) => row.name },
  { key: "cron", label: t("schedules.cron"), cell: (row) => h("div", {}, cronWords(row), h("div", { class: "hint" }, h("code", {}, row.cron), ` · ${row.zone}`)) },
  { key: "next", label: t("schedules.next"), cell: nextOf },
  { key: "last_run", label: t("schedules.last_run"), cell: lastOf },
];

function nextOf(row) {
  if (row.paused) return h("span", { class: "tag warn" }, t("schedules.paused"));
  if (!row.next_occurrence) return "–";
  return h("div", {}, localElement(row.next_occurrence.local), h("div", { class: "hint" }, utcTime(row.next_occurrence.at)));
}

function lastOf(row) {
  if (!row.last_run) return h("span", { class: "quiet" }, t("schedules.never"));
  return h("div", {}, runState(row.last_run.state), h("div", { class: "hint" }, utcTime(row.last_run.scheduled_for)));
}

function readAddress() {
  choice.value = asked().get("paused") ?? "";
  section.hidden = !asked().has("new") || open.hidden;
  open.setAttribute("aria-expanded", String(!section.hidden));
}

/** A template that could be computed at once: of the first profile, where there is one. */
async function template() {
  const profiles = (await may("profiles:read")) ? (await get("/v1/cluster-profiles?page_size=1")).items : [];
  const item = profiles.length
    ? { custom_id: profiles[0].slug, name: profiles[0].name, profile: profiles[0].slug }
    : {
        custom_id: "one-slow",
        name: "one slow GPU",
        scenario: { num_gpus: 1024, load_ms: 30, compute_ms: 300, communication: { kind: "fixed", allreduce_ms: 80 }, slow_groups: [{ count: 1, speed_fraction: 0.7 }] },
      };
  return { items: [item], currency: null };
}

const list = table(byId("schedules"), {
  columns,
  caption: t("schedules.caption"),
  empty: t("schedules.empty"),
  rowKey: (row) => row.slug,
  address: "",
  filters: () => ({ paused: choice.value }),
  load: ({ pageToken, filters, pageSize, signal }) =>
    get(withQuery(SCHEDULES, { ...filters, page_size: pageSize, page_token: pageToken }), { signal }),
});
choice.addEventListener("change", () => {
  setAsked({ paused: choice.value });
  list.filter();
});

const content = scheduleForm({ isNew: true, seesCosts: await may("costs:read"), isBudgetWithheld: false, ...(await knownChoices()) });
fill(byId("schedule-fields"), content.element);
onSubmit(byId("schedule-form"), async () => {
  const { data } = await create(SCHEDULES, content.read());
  location.assign(`/schedules/${data.slug}`);
});
open.addEventListener("click", () => {
  setAsked({ new: section.hidden ? "yes" : null }, { push: true });
  readAddress();
  if (!section.hidden) section.querySelector("input").focus();
});
onMoved(readAddress);
if (await onlyWith("schedules:write", [open], byId("permission"))) content.show({ ...EXAMPLE, batch: await template() });
readAddress();
