// What scenarios, profiles or the team lose from run to run; what is asked is kept in the address.

import { asked, onMoved, setAsked } from "./address.js";
import { get, withQuery } from "./api.js";
import { listed, showChosen } from "./choices.js";
import { byId, fill, h, settled } from "./dom.js";
import { count } from "./format.js";
import { historyChart } from "./history_chart.js";
import { historyColumns } from "./history_columns.js";
import { showProblem } from "./problems.js";
import { table } from "./table.js";
import { named, t } from "./texts.js";

const NAMES = ["group_by", "scenario", "profile", "schedule", "window", "from", "to", "step", "pricing", "as_of"];
const DEFAULTS = { group_by: "scenario", step: "run" };
const MOST_CHARTS = 6;
const PAGE_SIZE = 1000;
// A month of nights of 200 scenarios is 6 000 rows
const MOST_PAGES = 10;
const DAY_MS = 86_400_000;

const fields = Object.fromEntries(NAMES.map((name) => [name, byId(name)]));
let charts = [];
let turn = 0;

function showFields() {
  for (const name of NAMES) fields[name].value = asked().get(name) ?? DEFAULTS[name] ?? "";
  // Also one that is not in the list, or a deleted schedule by its id
  for (const name of ["profile", "schedule"]) showChosen(fields[name], asked().get(name) ?? "");
  if (fields.group_by.selectedIndex < 0) fields.group_by.value = DEFAULTS.group_by;
  fields.scenario.disabled = fields.group_by.value !== "scenario";
  // Days are counted back from the last one, or begin with the first
  fields.window.disabled = fields.from.value !== "";
}

/** What the address asks for and no field can take: it is said, not passed over. */
function ignoredNames() {
  const names = [...new Set(new URLSearchParams(location.search).keys())];
  return names.filter((name) => !NAMES.includes(name) || (asked().get(name) && fields[name].value !== asked().get(name)));
}

function parameters() {
  const given = Object.fromEntries(NAMES.map((name) => [name, fields[name].value.trim()]));
  if (given.group_by !== "scenario") given.scenario = "";
  // A named scenario is a group of its own
  if (given.scenario) given.group_by = "";
  if (given.as_of) given.as_of = new Date(given.as_of).toISOString();
  if (given.from) given.window = "";
  const { to, ...rest } = given;
  // Here the last day counts, as people say it; in the API it is the day after
  const until = to ? new Date(Date.parse(to) + DAY_MS).toISOString().slice(0, 10) : "";
  return { ...rest, until, page_size: PAGE_SIZE, limit: 1000 };
}

/** All pages, up to so many: the last answer with the rows of all. */
async function askedHistory(parameters_) {
  const pages = [];
  let token = null;
  do {
    pages.push(await get(withQuery("/v1/loss-history", { ...parameters_, page_token: token })));
    token = pages.at(-1).next_page_token;
  } while (token && pages.length < MOST_PAGES);
  const rowsOf = (name) => pages.flatMap((one) => one[name]);
  return { ...pages.at(-1), truncated: pages.some((one) => one.truncated), items: rowsOf("items"), totals: rowsOf("totals") };
}

function changed(push) {
  const given = Object.fromEntries(
    NAMES.map((name) => [name, fields[name].value === (DEFAULTS[name] ?? "") ? null : fields[name].value.trim()]),
  );
  setAsked(given, { push });
  show();
}

/** Rows of one line of a chart: one scenario on one cluster, one profile, or the team. */
function lines(rows, isTotal) {
  const found = new Map();
  for (const row of rows) {
    const name = isTotal ? (row.profile ?? "") : `${row.scenario} · ${row.profile ?? t("compare.inline")}`;
    const key = isTotal ? name : `${name} · ${row.custom_id}`;
    if (!found.has(key)) found.set(key, { name: name || t("compare.whole"), rows: [] });
    found.get(key).rows.push(row);
  }
  return [...found.values()];
}

async function show() {
  const mine = (turn += 1);
  showFields();
  byId("notice").hidden = true;
  try {
    const answer = await askedHistory(parameters());
    if (mine !== turn) return;
    draw(answer);
  } catch (problem) {
    if (mine !== turn) return;
    draw(null);
    showProblem(problem);
  }
}

function draw(answer) {
  const isTotal = answer !== null && answer.group_by !== "scenario";
  const rows = answer ? (isTotal ? answer.totals : answer.items) : [];
  for (const chart of charts) chart.destroy();
  const groups = lines(rows, isTotal);
  const places = groups.slice(0, MOST_CHARTS).map((group) => ({ group, place: h("div", { class: "chart" }) }));
  fill(
    byId("charts"),
    places.map(({ group, place }) => h("section", { class: "card" }, h("h2", {}, group.name), place)),
    groups.length > MOST_CHARTS ? h("p", { class: "hint" }, t("compare.more_charts", { count: count(groups.length - MOST_CHARTS) })) : null,
  );
  charts = places.map(({ group, place }) => historyChart(place, group.rows, group.name));
  fill(byId("notes"), answer ? notes(answer) : null);
  // The newest first: a chart is read to the right, a table from the top
  const newest = [...rows].reverse();
  const place = h("div");
  fill(byId("runs"), place);
  table(place, {
    columns: historyColumns(isTotal),
    caption: t("compare.runs_caption"),
    empty: t("compare.no_runs"),
    rowKey: (row) => row.result_id ?? row.batch_id,
    load: async ({ pageToken, pageSize }) => {
      const from = Number(pageToken ?? 0);
      const items = newest.slice(from, from + pageSize);
      return { items, next_page_token: from + pageSize < newest.length ? String(from + pageSize) : null };
    },
  });
}

function notes(answer) {
  const without = Object.entries(answer.runs_without_results).map(([state, number]) =>
    t("compare.runs_without", { state: named("compare.run_", state), count: count(number) }),
  );
  const ignored = ignoredNames();
  const found = [
    ignored.length ? t("compare.ignored", { names: ignored.map((name) => `${name}=${asked().get(name)}`).join(", ") }) : null,
    answer.without_headline ? t("compare.items_without_headline", { count: count(answer.without_headline) }) : null,
    answer.failed ? t("compare.items_failed", { count: count(answer.failed) }) : null,
    answer.truncated || answer.next_page_token ? t("compare.truncated") : null,
    ...without,
  ].filter(Boolean);
  return found.length ? h("ul", { class: "advice" }, found.map((one) => h("li", {}, one))) : null;
}

async function fillChoices() {
  const [profiles, schedules, recent] = await Promise.all([
    listed("/v1/cluster-profiles"),
    listed("/v1/schedules"),
    get("/v1/loss-history?group_by=scenario&limit=200"),
  ]);
  const any = h("option", { value: "" }, t("compare.any"));
  fill(fields.profile, any, profiles.map((one) => h("option", { value: one.slug }, one.slug)));
  fill(fields.schedule, any.cloneNode(true), schedules.map((one) => h("option", { value: one.slug }, one.name)));
  const names = [...new Set(recent.items.map((row) => row.scenario))].sort();
  fill(byId("scenarios"), names.map((name) => h("option", { value: name })));
}

byId("history-form").addEventListener("submit", (event) => event.preventDefault());
const soon = settled(() => changed(false), 400);
for (const [name, field] of Object.entries(fields)) {
  if (name === "scenario") field.addEventListener("input", () => soon());
  else field.addEventListener("change", () => changed(true));
}
onMoved(show);
fillChoices().then(show).catch(showProblem);
