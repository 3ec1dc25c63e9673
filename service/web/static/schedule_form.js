// The form of a schedule, with a preview of when it would come as one types.

import { ask, get, Problem } from "./api.js";
import { findRuns, listed, reportedRun } from "./choices.js";
import { deliveryControls } from "./delivery_fields.js";
import { fill, h, settled } from "./dom.js";
import { FieldFault, fieldset, gathered, hint, setAt, valueAt } from "./form.js";
import { batchControls } from "./item_fields.js";
import { occurrenceTable } from "./occurrence_list.js";
import { clearField, markField } from "./problems.js";
import { may } from "./session.js";
import { named, t } from "./texts.js";
import { twoViews } from "./two_views.js";
import { cronWords } from "./wall_time.js";

const PREVIEW_MS = 350;
const TIMES = ["/cron", "/zone"];
const SLUG = /^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/;
const KINDS = [null, "previous", "run", "date"];

function options(name, values) {
  return values.map((value) => [value, named(`schedules.${name}_`, value ?? "none")]);
}

function described(one) {
  const name = one.name ?? one.pointer.slice(1).replaceAll("/", "_");
  return { ...one, label: t(`schedules.${name}`), hint: hint(`schedules.${name}_hint`) };
}

/** What its fields are; a budget of money only for who may see costs. */
function sections({ isNew, seesCosts, isBudgetWithheld, address }) {
  const money = seesCosts
    ? [
        { pointer: "/budget/cost_of_loss_per_30_days/amount", kind: "decimal", currency: "/budget/cost_of_loss_per_30_days/currency", name: "budget_amount", absent: true },
        { pointer: "/budget/cost_of_loss_per_30_days/currency", kind: "text", name: "budget_currency", absent: true, list: ["EUR", "USD", "GBP", "CHF"] },
      ]
    : [];
  return [
    ["when", [
      ...(isNew ? [{ pointer: "/slug", kind: "text", required: true, pattern: SLUG, wanted: t("common.give_slug") }] : []),
      { pointer: "/name", kind: "text", required: true },
      { pointer: "/cron", kind: "text", required: true, placeholder: "30 2 * * *" },
      { pointer: "/zone", kind: "text", required: true, list: Intl.supportedValuesOf("timeZone") },
    ]],
    ["what", [
      { pointer: "/start_in_days", kind: "number", step: 1, min: -3660, max: 3660, required: true },
      { pointer: "/profiles_as_of", kind: "select", options: options("profiles_as_of", ["newest", "slot"]) },
    ]],
    ["policies", [
      { pointer: "/misfire_policy", kind: "select", options: options("misfire_policy", ["run_latest", "run_all", "skip"]) },
      { pointer: "/misfire_max_runs", kind: "number", step: 1, min: 1, max: 1000, required: true },
      { pointer: "/misfire_grace_s", kind: "number", step: 1, min: 1, max: 86_400, required: true },
      { pointer: "/concurrency_policy", kind: "select", options: options("concurrency_policy", ["queue", "forbid", "replace"]) },
    ]],
    ["reporting", [
      { pointer: "/baseline/kind", kind: "select", options: options("baseline", isNew ? KINDS.filter((kind) => kind !== "run") : KINDS) },
      { pointer: "/baseline/on", kind: "date", absent: true },
      { pointer: "/baseline/run_id", kind: "picked", absent: true, ...runsOf(address) },
      { pointer: "/report/language", kind: "select", options: [["en", t("common.in_en")], ["fr", t("common.in_fr")]] },
      { pointer: "/report/movers", kind: "number", step: 1, min: 1, max: 100, required: true },
      { pointer: "/report/remedies", kind: "check" },
    ]],
    ...(isBudgetWithheld ? [] : [["budget", [{ pointer: "/budget/gpu_hours_lost_per_30_days", kind: "number", name: "budget_gpu_hours", above: 0, absent: true }, ...money]]]),
  ].map(([name, fields]) => [name, fields.map(described)]);
}

/** How a run of the schedule at this address is found and called. */
function runsOf(address) {
  return {
    find: (text) => findRuns(address, text, reportedRun),
    optionOf: async (id) => reportedRun(await get(`${address}/runs/${id}`)),
  };
}

/** What there is to choose from: `{endpoints, profiles}`. */
export async function knownChoices() {
  const [endpoints, profiles] = await Promise.all([
    listed("/v1/webhook-endpoints"),
    may("profiles:read").then((is) => (is ? listed("/v1/cluster-profiles") : [])),
  ]);
  return { endpoints, profiles: profiles.map((one) => one.slug) };
}

/**
 * `{element, read(), show(document)}`; a budget that is withheld is left as it is. `circumstances`:
 * `{isNew, seesCosts, isBudgetWithheld, endpoints, profiles, address}`, the last of a schedule that has runs.
 */
export function scheduleForm(circumstances) {
  const parts = sections(circumstances).map(([name, fields]) => fieldset(fields, { legend: t(`schedules.part_${name}`) }));
  const views = {
    batch: twoViews({ pointer: "/batch", label: t("schedules.scenarios"), hint: t("schedules.batch_hint"), rows: 14, required: true, controls: batchControls(circumstances) }),
    deliveries: twoViews({ pointer: "/deliveries", label: t("schedules.deliveries"), hint: t("schedules.deliveries_hint"), rows: 8, controls: deliveryControls(circumstances) }),
  };
  // Each after the fields that it belongs to
  for (const [name, part] of [["batch", 1], ["deliveries", 3]]) parts[part].element.append(views[name].element);
  const preview = h("div", { class: "preview", "aria-live": "polite" });
  parts[0].element.append(preview);
  const all = parts.flatMap((part) => part.fields);
  const at = (pointer) => all.find((one) => one.pointer === pointer);
  let running = null;
  // What the preview has found at cron and zone
  let timeFaults = [];

  async function showPreview() {
    running?.abort();
    timeFaults = [];
    for (const pointer of TIMES) clearField(at(pointer).input);
    const [cron, zone] = [at("/cron").value(), at("/zone").value()];
    if (!cron || !zone) {
      fill(preview, h("p", { class: "hint" }, t("schedules.preview_hint")));
      return;
    }
    running = new AbortController();
    try {
      const { data } = await ask("POST", "/v1/schedule-previews", { body: { cron, zone }, signal: running.signal });
      fill(preview, wordsOf(data), h("details", { open: true }, h("summary", {}, t("schedules.preview")), occurrenceTable(data, t("schedules.preview_of", { cron: data.cron }))));
    } catch (problem) {
      if (!(problem instanceof Problem)) return;
      const said = problem.errors.length ? h("p", { class: "hint" }, t("schedules.preview_hint")) : h("p", { class: "fault" }, problem.message);
      fill(preview, said);
      // At the fields, while the reader goes on typing
      timeFaults = problem.errors.filter((error) => TIMES.includes(error.pointer));
      for (const error of timeFaults) markField(at(error.pointer).input, error);
    }
  }

  function wordsOf(data) {
    const words = cronWords(data) ?? h("div", { class: "cron-words" }, t("schedules.no_words"));
    return h("div", { class: "said" }, words);
  }

  /** Beside faults that keep the form from being sent, those of the time are told too. */
  function withTime(read) {
    try {
      return read();
    } catch (fault) {
      if (!(fault instanceof FieldFault)) throw fault;
      throw new FieldFault([...timeFaults.map((error) => ({ isOwn: false, ...error })), ...fault.errors]);
    }
  }

  function fitBaseline() {
    const kind = at("/baseline/kind").value();
    at("/baseline/on").element.hidden = kind !== "date";
    at("/baseline/run_id").element.hidden = kind !== "run";
    at("/misfire_max_runs").element.hidden = at("/misfire_policy").value() !== "run_all";
  }

  const typed = settled(showPreview, PREVIEW_MS);
  at("/cron").onChange(typed);
  at("/zone").onChange(typed);
  at("/baseline/kind").onChange(fitBaseline);
  at("/misfire_policy").onChange(fitBaseline);

  return {
    element: h("div", {}, parts.map((part) => part.element)),
    read() {
      let read = {};
      const names = Object.keys(views);
      const reads = withTime(() => gathered([...parts.map((part) => part.read), ...names.map((name) => views[name].read)]));
      for (const [place, name] of names.entries()) read[name] = reads[parts.length + place];
      for (const [place, part] of parts.entries()) {
        const own = reads[place];
        for (const { pointer } of part.fields) read = setAt(read, pointer, valueAt(own, pointer));
      }
      read.baseline = baselineOf(read.baseline);
      if ("budget" in read || at("/budget/gpu_hours_lost_per_30_days")) read.budget = budgetOf(read.budget);
      return read;
    },
    show(document) {
      for (const part of parts) part.show(document);
      for (const [name, view] of Object.entries(views)) view.show(document[name]);
      fitBaseline();
      showPreview();
    },
  };
}

function baselineOf({ kind, on, run_id }) {
  if (!kind) return null;
  if (kind === "date") return { kind, on: on ?? null };
  return kind === "run" ? { kind, run_id: run_id ?? null } : { kind };
}

function budgetOf(budget) {
  const { gpu_hours_lost_per_30_days, cost_of_loss_per_30_days } = budget ?? {};
  const { amount, currency } = cost_of_loss_per_30_days ?? {};
  const cost = amount || currency ? { amount: amount ?? "", currency: currency ?? "" } : null;
  if (gpu_hours_lost_per_30_days === undefined && !cost) return null;
  return { gpu_hours_lost_per_30_days: gpu_hours_lost_per_30_days ?? null, cost_of_loss_per_30_days: cost };
}
