// The table of results, of one batch or across all: filters, columns, pages, and files of the same.

import { asked, onMoved, setAsked } from "./address.js";
import { get, withQuery } from "./api.js";
import { columnChoice } from "./column_choice.js";
import { columnsOf } from "./columns.js";
import { fill, h } from "./dom.js";
import { downloadMenu } from "./download_menu.js";
import { resultFilters } from "./result_filters.js";
import { costColumn, factColumns, grouped, INPUT, inputColumn, outputColumn, sizeColumn } from "./result_columns.js";
import { may } from "./session.js";
import { table } from "./table.js";
import { t } from "./texts.js";

const AT_FIRST = ["name", "profile", INPUT, "step_mean_ms", "efficiency_fraction", "gpu_hours_lost_per_day", "gpu_hours_lost", "cost_of_loss"];

/**
 * Put filters and table into `element`. `batch`: only of that one, priced in `currency` (which
 * lets money sort); without it across batches. Answers the table.
 */
export async function resultTable(element, { batch = null, currency = null } = {}) {
  const [outputs, seesCosts, exports] = await Promise.all([columnsOf(), may("costs:read"), may("exports:create")]);
  const isAcross = batch === null;
  const atFirst = isAcross ? [AT_FIRST[0], "batch", ...AT_FIRST.slice(1)] : AT_FIRST;
  // Every row has a number of GPUs, also where it is no axis
  const inputs = new Map([["num_gpus", sizeColumn()]]);
  // Read at each drawing of the headings: a currency may be chosen meanwhile
  const cost = costColumn(() => Boolean(seesCosts && (currency || asked().get("currency"))));
  const columns = [];
  arrange();
  let shown = chosenKeys();

  const filterPlace = h("div");
  const tools = h("div", { class: "row tools-of-table" });
  const place = h("div");
  fill(element, filterPlace, tools, place);

  const filters = resultFilters(filterPlace, {
    isAcross,
    changed: () => shownTable.filter(),
  });
  tellPaths();
  const downloads = downloadMenu();
  const path = batch ? `/v1/scenario-batches/${batch.id}/results` : "/v1/results";

  const shownTable = table(place, {
    columns,
    caption: isAcross ? t("results.all_results") : t("results.results_of", { name: batch.name }),
    empty: t("results.no_results"),
    address: "",
    shown: spread(shown),
    filters: parameters,
    load: ({ pageToken, orderBy, filters: asked_, pageSize, signal }) => {
      drawDownloads(orderBy);
      const query = { ...asked_, ...currencyFor(orderBy, asked_), order_by: orderBy, page_size: pageSize, page_token: pageToken };
      return get(withQuery(path, query), { signal });
    },
    loaded: ({ items }) => learn(items),
  });

  const choice = columnChoice({
    groups: () => grouped(columns, outputs),
    shown: () => spread(shown),
    chosen: (keys) => {
      shown = keys ?? atFirst;
      setAsked({ columns: keys?.join(",") ?? null });
      shownTable.setColumns(spread(shown));
    },
  });
  fill(tools, choice, exports ? downloads.element : null);
  onMoved(() => {
    shown = chosenKeys();
    shownTable.setColumns(spread(shown));
  });
  return shownTable;

  function parameters() {
    return { ...filters.values(), pricing: asked().get("pricing") };
  }

  /** Money is sorted within one currency: that of the batch, or of the filter. */
  function currencyFor(orderBy, given) {
    const sorts = (orderBy ?? "").includes("cost_of_loss");
    return sorts && currency && !given.currency ? { currency } : {};
  }

  function chosenKeys() {
    return asked().get("columns")?.split(",") ?? atFirst;
  }

  /** All keys, with those of the axes at the place where they stand for all. */
  function spread(keys) {
    const all = [...inputs.keys()].map((one) => `${INPUT}${one}`);
    return keys.flatMap((key) => (key === INPUT ? all : key));
  }

  /** In place: the table keeps the list. */
  function arrange() {
    const found = [
      ...factColumns({ isAcross }),
      ...[...inputs.values()],
      ...outputs.map(outputColumn),
      cost,
    ];
    columns.splice(0, columns.length, ...found);
  }

  /** Axes are known from what came: their columns are added. */
  function learn(items) {
    const before = inputs.size;
    for (const row of items) {
      for (const name of Object.keys(row.inputs)) {
        if (!inputs.has(name)) inputs.set(name, inputColumn(name));
      }
    }
    if (inputs.size === before) return;
    arrange();
    tellPaths();
    shownTable.setColumns(spread(shown));
  }

  function tellPaths() {
    filters.setPaths([
      ...[...inputs.values()].map((column) => [column.hint, column.label]),
      ...outputs.map((column) => [column.name, column.label]),
    ]);
  }

  function drawDownloads(orderBy) {
    const given = parameters();
    const query = { ...given, ...currencyFor(orderBy, given), batch: batch?.id, order_by: orderBy };
    downloads.show("/v1/exports", query);
  }
}
