// What is around a chart: its legend, a sentence, and the table of its values.

import { fill, h } from "./dom.js";
import { t } from "./texts.js";

/**
 * Room for a chart in `element`: `{place, legend(items), note(text), values(table)}`.
 *
 * - `legend`: `[{tone, text}]`, the tones of base.css;
 * - `values`: `{caption, heads: [{text, num?}], rows() → [[cell, …], …]}`; the first cell is the heading
 *   of its row. Rows are made only while the reader has the table open.
 */
export function frame(element) {
  const keys = h("ul", { class: "chart-legend", hidden: true });
  const place = h("div", { class: "chart" });
  const sentence = h("p", { class: "hint", hidden: true });
  const table = h("table");
  const region = h("div", { class: "scroll", tabindex: "0", role: "region" }, table);
  const values = h("details", { class: "chart-values", hidden: true }, h("summary", {}, t("charts.values")), region);
  let shown = null;

  function fillTable() {
    if (!shown || !values.open) return;
    const { caption, heads, rows } = shown;
    fill(
      table,
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: head.num ? "num" : null }, head.text)))),
      h("tbody", {}, rows().map((cells) => h("tr", {}, cells.map((cell, column) => cellOf(cell, column, heads))))),
    );
  }

  values.addEventListener("toggle", fillTable);
  fill(element, keys, place, sentence, values);
  return {
    place,
    legend(items) {
      keys.hidden = !items.length;
      fill(keys, items.map(({ tone, text }) => h("li", { class: tone }, text)));
    },
    note(text) {
      sentence.hidden = !text;
      sentence.textContent = text;
    },
    values(next) {
      shown = next;
      values.hidden = !next;
      region.setAttribute("aria-label", next?.caption ?? "");
      fillTable();
    },
  };
}

function cellOf(cell, column, heads) {
  if (column === 0) return h("th", { scope: "row" }, cell);
  return h("td", { class: heads[column].num ? "num" : null }, cell);
}

/**
 * A chart that may come later than what it shows: `show(data, words)` draws the newest, `hide()`
 * takes it away. A library that cannot be loaded is told once, the table of values stays.
 */
export function laterChart(place, name, draw, failed) {
  let chart = null;
  let wanted = null;
  let isDrawing = false;
  let isOver = false;

  place.classList.add("waiting");

  async function show(data, words) {
    wanted = { data, words };
    place.hidden = false;
    if (chart) return chart.update(data, words);
    if (isDrawing) return undefined;
    isDrawing = true;
    try {
      chart = await draw(place, name, data, words);
      place.classList.remove("waiting");
      if (isOver) return chart.destroy();
      if (wanted.data !== data) return await chart.update(wanted.data, wanted.words);
    } catch (error) {
      place.hidden = true;
      console.error(error);
      failed();
    } finally {
      isDrawing = false;
    }
    return undefined;
  }

  return {
    show,
    hide() {
      place.hidden = true;
    },
    destroy() {
      isOver = true;
      chart?.destroy();
    },
  };
}
