// What is compared: two batches, or two runs of a schedule, by their slots or by dates.

import { get, withQuery } from "./api.js";
import { batchOption, findBatches } from "./batch_choices.js";
import { isRunning } from "./batch_parts.js";
import { findRuns, runsBefore } from "./choices.js";
import { h } from "./dom.js";
import { count, moment } from "./format.js";
import { picker } from "./picker.js";
import { may } from "./session.js";
import { t } from "./texts.js";

function addressOf(schedule) {
  return `/v1/schedules/${encodeURIComponent(schedule)}`;
}

/** A run by its batch, once that has results. */
function runOption(run) {
  if (!run.batch_id || !run.batch || isRunning(run.batch)) return null;
  return { value: run.batch_id, text: moment(run.scheduled_for, run.zone), hint: `${run.local_time.slice(0, 10)} · ${run.zone}` };
}

/** The newest run with results until the end of that day in its zone, as an option; or null. */
async function runOfDay(schedule, wanted) {
  const until = (await runsBefore(addressOf(schedule), Date.parse(wanted))).filter((one) => one.local_time.slice(0, 10) <= wanted);
  return until.map(runOption).find(Boolean) ?? null;
}

/**
 * One side: a searchable choice, for a schedule a day, and which of several pricings counts. `schedule()`:
 * the slug, or null for batches; `chosen(batchId)` and `priced(number)` are called at each choice.
 * `{element, show(batchId, pricing)}`.
 */
export function side({ name, schedule, chosen, priced }) {
  const choice = picker({
    label: t(`compare.${name}`),
    find: (text) => (schedule() ? findRuns(addressOf(schedule()), text, runOption) : findBatches(text)),
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
        const run = (await runsBefore(addressOf(schedule()))).find((one) => one.batch_id === batchId);
        const option = run && runOption(run);
        if (option) return choice.show(option);
      }
      return choice.show(batchOption(await get(`/v1/scenario-batches/${batchId}`)));
    },
  };
}
