// States of runs, backfills and reports as tags: a word, and a colour beside it.

import { h } from "./dom.js";
import { named } from "./texts.js";

const LOOKS = {
  succeeded: "good",
  ended: "good",
  partially_failed: "warn",
  failed: "bad",
  misfired: "warn",
  skipped: "warn",
  replaced: "warn",
};

export function runState(state) {
  return h("span", { class: `tag ${LOOKS[state] ?? ""}`, "data-state": state }, named("schedules.state_", state));
}

const BUDGETS = { within: "good", over: "bad", unknown: "warn", withheld: "" };

export function budgetTag(status) {
  return status ? h("span", { class: `tag ${BUDGETS[status] ?? ""}` }, named("schedules.budget_", status)) : "–";
}
