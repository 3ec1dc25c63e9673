// Past runs priced again with the rates of now: another view, the first prices stay.

import { create, withQuery } from "./api.js";
import { announce, byId, fill, h } from "./dom.js";
import { fieldset, hint } from "./form.js";
import { count } from "./format.js";
import { onSubmit } from "./submit.js";
import { counted, named, t } from "./texts.js";

const DAY_MS = 86_400_000;

/** For who may see costs; `slug` of the schedule. */
export function repricings(section, form, { address, slug, seesCosts }) {
  section.hidden = !seesCosts;
  if (!seesCosts) return;
  const outcome = byId("repricing-outcome");
  const fields = fieldset(
    [
      { pointer: "/from", kind: "date", required: true },
      // The API's `until` is the day after: here it is the last one, as for backfills
      { pointer: "/until", kind: "date", required: true },
      { pointer: "/currency", kind: "text", absent: true, list: ["EUR", "USD", "GBP", "CHF"], pattern: /^[A-Z]{3}$/, wanted: t("common.give_currency") },
    ].map((one) => ({ ...one, label: t(`schedules.repricing_${one.pointer.slice(1)}`), hint: hint(`schedules.repricing_${one.pointer.slice(1)}_hint`) })),
  );
  fill(byId("repricing-fields"), fields.element);
  onSubmit(form, async () => {
    fill(outcome);
    const asked = fields.read();
    const until = new Date(Date.parse(asked.until) + DAY_MS).toISOString().slice(0, 10);
    const { data } = await create(`${address}/repricings`, { ...asked, until });
    const said = counted("schedules.repriced", data.items.length, count(data.items.length));
    const without = Object.entries(data.runs_without_results).map(([state, number]) => h("li", {}, t("common.pair", { name: named("schedules.state_", state), text: count(number) })));
    fill(
      outcome,
      h("p", { class: "done" }, said, " ", h("a", { href: withQuery("/history", { schedule: slug, pricing: "newest" }) }, t("schedules.repriced_history"))),
      without.length ? [h("p", { class: "hint" }, t("schedules.repriced_without")), h("ul", {}, without)] : null,
    );
    announce(said);
  });
}
