// States of reports and budgets as tags: a word, and a colour beside it.

import { h } from "./dom.js";
import { named } from "./texts.js";

const LOOKS = { succeeded: "good", failed: "bad" };
const BUDGETS = { within: "good", over: "bad", unknown: "warn", withheld: "" };

export function reportState(state) {
  return h("span", { class: `tag ${LOOKS[state] ?? ""}`, "data-state": state }, named("reports.state_", state));
}

export function budgetTag(status) {
  return h("span", { class: `tag ${BUDGETS[status] ?? ""}`, "data-budget": status }, named("reports.budget_", status));
}
