// Deliveries in words: their states as tags, to whom they go, and whether they are to be looked at again.

import { h } from "./dom.js";
import { named, t } from "./texts.js";

export const STATES = ["pending", "delivered", "dead", "skipped", "canceled"];
export const KINDS = ["webhook", "email", "directory"];

const LOOKS = { delivered: "good", dead: "bad", pending: "warn" };
// What waits longer for its next attempt is not looked at every other second
const SOON_MS = 60_000;

export function deliveryState(state) {
  const hint = state === "withheld" ? t("common.withheld_hint") : null;
  return h("span", { class: `tag ${LOOKS[state] ?? ""}`, "data-state": state, title: hint }, named("deliveries.state_", state));
}

/** Whether something may become of it within the minute. */
export function isMoving(row) {
  if (row.state !== "pending") return false;
  return row.next_attempt_at === null || Date.parse(row.next_attempt_at) - Date.now() < SOON_MS;
}

/** To whom it goes, as text: the endpoint's name where `endpoints` (id → name) knows it. */
export function targetText(row, endpoints) {
  const { target, kind } = row;
  if (kind === "webhook") return endpoints.get(row.endpoint_id ?? target.endpoint_id) ?? t("deliveries.endpoint_gone");
  if (kind === "email") return (target.to ?? []).join(", ");
  return target.folder ?? "";
}
