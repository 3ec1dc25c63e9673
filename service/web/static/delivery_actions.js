// What can be done with a delivery: send it again or at once, and call it off; each as far as one may.

import { ask } from "./api.js";
import { announce, h } from "./dom.js";
import { attempt, confirmed } from "./submit.js";
import { t } from "./texts.js";

// Whoever has it already, or was not to have it, is asked about first
const ASKED = ["delivered", "skipped", "canceled"];

/** Links for one row; `named` tells it from others, `changed(delivery)` gets what is answered. */
export function deliveryActions(row, { scopes, named, changed }) {
  const path = `/v1/deliveries/${row.id}`;
  const mayChange = scopes.includes("schedules:write") && row.state !== "withheld";
  const mayReplay = mayChange && (!row.includes_costs || scopes.includes("costs:read"));

  function link(text, work) {
    const about = `${t(`deliveries.${text}`)}: ${named}`;
    return h("button", { type: "button", class: "link", "aria-label": about, onclick: (event) => work(event.target) }, t(`deliveries.${text}`));
  }

  async function replay(button) {
    if (ASKED.includes(row.state) && !(await confirmed(t(`deliveries.replay_${row.state}`, { named }), t("deliveries.replay")))) return;
    await attempt(button, async () => {
      const { data } = await ask("POST", `${path}/replay`);
      announce(t("deliveries.was_replayed"));
      await changed(data);
    });
  }

  async function cancel(button) {
    await attempt(button, async () => {
      const { data } = await ask("POST", `${path}/cancellation`);
      announce(t("deliveries.was_canceled"));
      await changed(data);
    });
  }

  const isWaiting = row.state === "pending";
  return [
    mayReplay ? link(isWaiting ? "at_once" : "replay", replay) : null,
    mayChange && isWaiting ? link("call_off", cancel) : null,
  ].filter(Boolean);
}
