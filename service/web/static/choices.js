// What there is to choose from: whole lists, up to so many, and what one searches for.

import { get, withQuery } from "./api.js";
import { h } from "./dom.js";
import { localTime } from "./wall_time.js";

const PAGE_SIZE = 200;
const MOST = 1000;
const SHOWN = 30;
const DAY_MS = 86_400_000;
const TYPED_DAY = /^(\d{4})-(\d\d)(?:-(\d\d))?$/;

/** The items of a list, page by page, up to 1,000. */
export async function listed(path, parameters = {}) {
  const items = [];
  let token = null;
  do {
    const page = await get(withQuery(path, { ...parameters, page_size: PAGE_SIZE, page_token: token }));
    items.push(...page.items);
    token = page.next_page_token;
  } while (token && items.length < MOST);
  return items;
}

/** Put the value into a select; what the address names is there, also where the list did not hold it. */
export function showChosen(select, value) {
  select.value = value;
  if (value && select.selectedIndex < 0) {
    select.append(h("option", { value }, value));
    select.value = value;
  }
}

/**
 * Runs of the schedule at this address that `optionOf` takes, the newest first, of those that hold the text. A day or a month
 * ("2026-11-30", "2026-11") reaches every run, other texts the newest 200.
 */
export async function findRuns(address, text, optionOf) {
  const [whole, year, month, date] = TYPED_DAY.exec(text) ?? [];
  const last = whole ? Date.UTC(year, date ? month - 1 : month, date ?? 0) : NaN;
  const options = (await runsBefore(address, last)).map(optionOf).filter(Boolean);
  return options.filter((one) => `${one.text} ${one.hint}`.toLowerCase().includes(text.toLowerCase())).slice(0, SHOWN);
}

/** 200 runs until the end of that day (ms), in whatever zone; the newest ones without a day. */
export async function runsBefore(address, day_ms = NaN) {
  // No zone is a day from UTC
  const before = Number.isNaN(day_ms) ? null : new Date(day_ms + 2 * DAY_MS).toISOString();
  return (await get(withQuery(`${address}/runs`, { page_size: PAGE_SIZE, scheduled_before: before }))).items;
}

/** A run by its own id, once it has a report. */
export function reportedRun(run) {
  return run.report_id ? { value: run.id, text: localTime(run.local_time), hint: `${run.local_time.slice(0, 10)} · ${run.zone}` } : null;
}
