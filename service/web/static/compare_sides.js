// What is compared: two batches, or two runs of a schedule, by their slots or by dates.

import { get, withQuery } from "./api.js";
import { isRunning, stateText } from "./batch_parts.js";
import { h } from "./dom.js";
import { count, day, moment } from "./format.js";
import { picker } from "./picker.js";
import { may } from "./session.js";
import { t } from "./texts.js";

const MOST = 200;
const SHOWN = 30;
const LONGEST = 200;
const DAY_MS = 86_400_000;

/** Batches whose name holds the text, the newest first; where there are none, new ones whose id does. */
async function findBatches(text) {
  const listed = async (filter) => (await get(withQuery("/v1/scenario-batches", { ...filter, page_size: MOST }))).items;
  let found = await listed({ name_contains: text.slice(0, LONGEST) });
  if (!found.length && text) {
    found = (await listed({})).filter((batch) => batch.id.includes(text.toLowerCase()));
  }
  return found.filter((batch) => !isRunning(batch)).slice(0, SHOWN).map(batchOption);
}

export function batchOption(batch) {
  const hint = `${stateText(batch.state)} · ${day(batch.start_on)} · ${moment(batch.created_at)}`;
  return { value: batch.id, text: batch.name, hint };
}

/** Runs that have a batch, the newest first; the first `SHOWN` that hold the text. */
async function findRuns(schedule, text) {
  const found = await knownRuns(schedule);
  return found.filter((one) => `${one.text} ${one.hint}`.toLowerCase().includes(text.toLowerCase())).slice(0, SHOWN);
}

async function knownRuns(schedule) {
  const { items } = await get(withQuery(`/v1/schedules/${encodeURIComponent(schedule)}/runs`, { page_size: MOST }));
  return items.filter(hasResults).map(runOption);
}

function runOption(run) {
  const zone = run.zone;
  return { value: run.batch_id, text: moment(run.scheduled_for, zone), hint: `${run.local_time.slice(0, 10)} · ${zone}` };
}

/** The newest run with results until the end of that day in its zone, as an option; or null. */
async function runOfDay(schedule, wanted) {
  // No zone is a day from UTC: what is after that day there is left out below
  const before = new Date(Date.parse(wanted) + 2 * DAY_MS).toISOString();
  const { items } = await get(withQuery(`/v1/schedules/${encodeURIComponent(schedule)}/runs`, { page_size: MOST, scheduled_before: before }));
  const run = items.find((one) => hasResults(one) && one.local_time.slice(0, 10) <= wanted);
  return run ? runOption(run) : null;
}

function hasResults(run) {
  return run.batch_id && run.batch && !isRunning(run.batch);
}

/**
 * One side: a searchable choice, for a schedule a day, and which of several pricings counts. `schedule()`:
 * the slug, or null for batches; `chosen(batchId)` and `priced(number)` are called at each choice.
 * `{element, show(batchId, pricing)}`.
 */
export function side({ name, schedule, chosen, priced }) {
  const choice = picker({
    label: t(`compare.${name}`),
    find: (text) => (schedule() ? findRuns(schedule(), text) : findBatches(text)),
    chosen: (option) => chosen(option.value),
  });
  const id = `${name}-on`;
  const date = h("input", { id, type: "date" });
  const byDate = h("div", { class: "field by-date" }, h("label", { for: id }, t("compare.or_day")), date);
  date.addEventListener("change", async () => {
    if (!date.value) return;
    const option = await runOfDay(schedule(), date.value);
    date.setCustomValidity(option ? "" : t("compare.no_run_of_day"));
    date.reportValidity();
    if (!option) return;
    choice.show(option);
    chosen(option.value);
  });

  const prices = h("select", { id: `${name}-pricing` });
  const byPricing = h("div", { class: "field by-pricing", hidden: true }, h("label", { for: prices.id }, t("compare.pricing")), prices);
  prices.addEventListener("change", () => priced(prices.value === "1" ? null : prices.value));

  async function showPricings(batchId, pricing) {
    const items = batchId && (await may("costs:read")) ? (await get(`/v1/scenario-batches/${batchId}/pricings`)).items : [];
    byPricing.hidden = items.length < 2;
    prices.replaceChildren(...items.map((one) => h("option", { value: one.pricing }, t("compare.pricing_of", { number: count(one.pricing), currency: one.currency ?? "", moment: moment(one.rates_as_of) }))));
    prices.value = pricing ?? "1";
  }

  return {
    element: h("div", { class: "side" }, choice.element, byDate, byPricing),
    /** What is chosen, by its id; of a schedule, by its run. */
    async show(batchId, pricing) {
      byDate.hidden = !schedule();
      await showPricings(batchId, pricing);
      if (!batchId) return choice.show(null);
      if (schedule()) {
        const option = (await knownRuns(schedule())).find((one) => one.value === batchId);
        if (option) return choice.show(option);
      }
      return choice.show(batchOption(await get(`/v1/scenario-batches/${batchId}`)));
    },
  };
}
