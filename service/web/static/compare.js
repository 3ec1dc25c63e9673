// Two batches, or two runs of a schedule, side by side; what is chosen is kept in the address.

import { asked, onMoved, setAsked } from "./address.js";
import { get, withQuery } from "./api.js";
import { drawChart } from "./charts.js";
import { listed, showChosen } from "./choices.js";
import { columnsOf, headingOf } from "./columns.js";
import { axesOf, differenceColumns, pairsOf } from "./compare_rows.js";
import { side } from "./compare_sides.js";
import { summaryElements } from "./compare_summary.js";
import { announce, byId, fill, h } from "./dom.js";
import { downloadMenu } from "./download_menu.js";
import { hours, signedHours } from "./format.js";
import { showProblem } from "./problems.js";
import { may } from "./session.js";
import { table } from "./table.js";
import { t } from "./texts.js";

const LOST = "gpu_hours_lost";
const NAMES = ["baseline", "candidate"];
const PRICINGS = NAMES.map((name) => `${name}_pricing`);

const source = byId("source");
const figure = byId("figure");
const causes = byId("causes");
const downloads = downloadMenu(byId("downloads"));
const sides = Object.fromEntries(
  NAMES.map((name) => [
    name,
    side({
      name,
      schedule: () => source.value || null,
      // Another batch has pricings of its own
      chosen: (id) => choose({ [name]: id, [`${name}_pricing`]: null }),
      priced: (number) => choose({ [`${name}_pricing`]: number }),
    }),
  ]),
);
let shownChart = null;
let turn = 0;

function choose(changes) {
  setAsked({ ...changes, page: null, order_by: null }, { push: true });
  show();
}

async function begin() {
  const [outputs, schedules] = await Promise.all([columnsOf(), listed("/v1/schedules")]);
  const numbers = outputs.filter((column) => column.kind === "float64" && !column.name.endsWith("_se"));
  fill(figure, numbers.map((column) => h("option", { value: column.name }, headingOf(column))));
  fill(
    source,
    h("option", { value: "" }, t("compare.batches")),
    schedules.map((one) => h("option", { value: one.slug }, t("compare.schedule_of", { name: one.name }))),
  );
  for (const name of NAMES) byId(name).append(sides[name].element);
  source.addEventListener("change", () => choose({ schedule: source.value, baseline: null, candidate: null, baseline_pricing: null, candidate_pricing: null }));
  figure.addEventListener("change", () => choose({ figure: figure.value === LOST ? null : figure.value }));
  causes.addEventListener("change", () => choose({ causes: causes.checked ? "true" : null }));
  byId("swap").addEventListener("click", () => {
    const query = asked();
    const crossed = [["baseline", "candidate"], ["candidate", "baseline"], PRICINGS, [...PRICINGS].reverse()];
    choose(Object.fromEntries(crossed.map(([to, from]) => [to, query.get(from)])));
  });
  onMoved(show);
  await show();
}

async function show() {
  const mine = (turn += 1);
  const query = asked();
  const [baseline, candidate] = NAMES.map((name) => query.get(name));
  showChosen(source, query.get("schedule") ?? "");
  figure.value = query.get("figure") ?? LOST;
  if (figure.selectedIndex < 0) figure.value = LOST;
  causes.checked = query.get("causes") === "true";
  byId("notice").hidden = true;
  try {
    await Promise.all(NAMES.map((name) => sides[name].show(query.get(name), query.get(`${name}_pricing`))));
    const isWhole = Boolean(baseline && candidate);
    byId("choose").hidden = isWhole;
    byId("comparison").hidden = !isWhole;
    if (isWhole && mine === turn) await compare({ baseline, candidate }, mine);
  } catch (problem) {
    byId("comparison").hidden = true;
    showProblem(problem);
  }
}

async function compare(chosen, mine) {
  const [outputs, sortsMoney, exports] = await Promise.all([columnsOf(), may("costs:read"), may("exports:create")]);
  const column = outputs.find((one) => one.name === figure.value);
  const given = { ...chosen, ...Object.fromEntries(PRICINGS.map((name) => [name, asked().get(name)])) };
  const asks = { ...given, columns: column.name, causes: causes.checked ? "true" : null };
  const whole = await get(withQuery("/v1/comparisons", { ...given, page_size: 1 }));
  if (mine !== turn) return;
  fill(byId("summary"), summaryElements(whole));
  const lost = whole.summary.gpu_hours_lost;
  announce(
    whole.summary.items
      ? t("compare.announced", { past: hours(lost.past), new: hours(lost.new), difference: signedHours(lost.difference) })
      : t("compare.nothing_to_compare"),
  );
  // By size, gains among losses
  const largest = `-magnitude.${column.name}`;
  const drawn = await get(withQuery("/v1/comparisons", { ...asks, causes: null, order_by: largest }));
  if (mine !== turn) return;
  // The chart library may take seconds the first time: the table does not wait for it
  drawPairs(drawn.items, column).catch(showProblem);
  const place = h("div");
  fill(byId("differences"), place);
  table(place, {
    columns: differenceColumns({ column, axes: axesOf(drawn.items), causes: causes.checked, sortsMoney, sides: chosen }),
    caption: t("compare.differences_of", { figure: headingOf(column) }),
    empty: t("compare.nothing_matched"),
    rowKey: (row) => `${row.past_point}-${row.new_point}`,
    orderBy: largest,
    pageSize: 25,
    address: "",
    load: ({ pageToken, orderBy, pageSize, signal }) => {
      downloads.element.hidden = !exports;
      downloads.show("/v1/exports/comparison", { ...asks, causes: null, order_by: orderBy });
      return get(withQuery("/v1/comparisons", { ...asks, order_by: orderBy, page_size: pageSize, page_token: pageToken }), { signal });
    },
  });
}

async function drawPairs(items, column) {
  const rows = pairsOf(items, column);
  byId("pairs").parentElement.hidden = !rows.length;
  shownChart?.then((chart) => chart.destroy());
  shownChart = null;
  if (!rows.length) return;
  const legend = h("ul", { class: "chart-legend" }, ["past", "new"].map((tone) => h("li", { class: tone }, t(`compare.${tone}`))));
  const place = h("div", { class: "chart" });
  fill(byId("pairs"), legend, place, h("p", { class: "hint" }, t("compare.pairs_hint", { figure: headingOf(column) })));
  shownChart = drawChart(place, "pairs", rows, {
    title: t("compare.largest"),
    description: t("compare.pairs_desc", { name: rows[0].tip.split("\n")[0], past: rows[0].text, new: rows[1].text }),
  });
  await shownChart;
}

begin().catch(showProblem);
