// A new rate, and the correction of one: what was recorded stays readable, a new row replaces it.

import { ask, create } from "./api.js";
import { byId, fill } from "./dom.js";
import { fieldset, hint } from "./form.js";
import { day, money } from "./format.js";
import { showProblem } from "./problems.js";
import { onSubmit } from "./submit.js";
import { t } from "./texts.js";

const RATES = "/v1/gpu-hour-rates";
const KEY = [
  { pointer: "/gpu_type", kind: "text", name: "gpu_type", required: true },
  { pointer: "/cost_center", kind: "text", name: "cost_center" },
  { pointer: "/price_per_gpu_hour/currency", kind: "text", name: "currency", required: true, list: ["EUR", "USD", "GBP", "CHF"] },
];
const DATED = [
  // A decimal as text: a number field would make a float of it
  { pointer: "/price_per_gpu_hour/amount", kind: "decimal", currency: "/price_per_gpu_hour/currency", name: "price", required: true },
  { pointer: "/valid_from", kind: "date", name: "valid_from", required: true },
  { pointer: "/valid_until", kind: "date", name: "valid_until" },
  { pointer: "/source", kind: "text", name: "source", required: true },
];
const REASON = { pointer: "/reason", kind: "text", name: "reason" };

function described(one) {
  return { ...one, label: t(`rates.${one.name}`), hint: hint(`rates.${one.name}_hint`) };
}

export function newRateForm(form, done) {
  const fields = fieldset([...KEY, ...DATED, REASON].map(described));
  fill(byId("new-fields"), fields.element);
  fields.field("/gpu_type").input.setAttribute("list", "gpu-types");
  onSubmit(form, async () => {
    const { data } = await create(RATES, fields.read());
    fields.show({});
    await done(data);
  });
}

/** `{show(id)}`: only what differs from the recorded row is sent. */
export function correctionForm(form, done) {
  const fields = fieldset([...DATED, { ...REASON, required: true }].map(described));
  fill(byId("correct-fields"), fields.element);
  let rate = null;
  let etag = null;
  let newest = null;
  onSubmit(form, async () => {
    const wanted = fields.read();
    const changes = ["valid_from", "valid_until", "source"].filter((key) => wanted[key] !== rate[key]);
    if (wanted.price_per_gpu_hour.amount !== rate.price_per_gpu_hour.amount) changes.push("price_per_gpu_hour");
    const body = Object.fromEntries(changes.map((key) => [key, wanted[key]]));
    await create(`${RATES}/${rate.id}/corrections`, { ...body, reason: wanted.reason }, { headers: { "If-Match": etag } });
    await done();
  });
  return {
    async show(id) {
      newest = id;
      try {
        const answer = await ask("GET", `${RATES}/${encodeURIComponent(id)}`);
        // Another one was chosen meanwhile: this is not what is to be corrected.
        if (newest !== id) return;
        rate = answer.data;
        etag = answer.headers.get("etag");
        const { valid_from, valid_until, source, price_per_gpu_hour } = rate;
        fields.show({ valid_from, valid_until, source, price_per_gpu_hour });
        byId("correct-what").textContent = t("rates.correct_what", {
          gpu_type: rate.gpu_type,
          cost_center: rate.cost_center ?? t("rates.any"),
          price: money(rate.price_per_gpu_hour),
          from: day(rate.valid_from),
        });
      } catch (problem) {
        showProblem(problem);
      }
    },
  };
}
