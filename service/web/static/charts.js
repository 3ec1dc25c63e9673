// Charts of the one definition (service/reports/charts*.py), drawn by the bundled Vega as SVG.
//
// A chart is compiled once; what changes afterwards are its rows, its width and a few signals.

import { LAYOUTS } from "./chart_layouts.js";
import { follow } from "./chart_pointer.js";
import { fill, h } from "./dom.js";
import { language } from "./texts.js";

let asked;
let numbered = 0;

/**
 * Draw the chart `name` into `element`; `{update(data), destroy()}` once it is there.
 *
 * - `data`: what its layout takes (chart_layouts.js), or a function of the width that answers it;
 *   update it as often as wanted: of several in one frame the last is drawn;
 * - `title`, `description`: its accessible name and what it tells, as texts;
 * - `width`: in px; without one it follows the element.
 */
export async function drawChart(element, name, data, { title, description = "", width = null }) {
  const { embed, specs } = await library();
  const about = `chart-about-${(numbered += 1)}`;
  // Vega writes roles of its own on the element that it draws into.
  const inner = h("div", { "aria-hidden": "true" });
  const drawing = h("div", { class: "drawing", role: "img", "aria-label": title, "aria-describedby": about }, inner);
  const told = h("p", { class: "unseen", id: about }, description);
  element.classList.add("chart");
  fill(element, drawing, told);
  const spec = JSON.parse(specs[name]);
  const { view } = await embed(inner, spec, options());
  const layout = LAYOUTS[name];
  const pointer = follow(drawing, () => spots);
  let current = data;
  let spots = null;
  let drawn = 0;
  let running = Promise.resolve();
  let isWaiting = false;
  let isOver = false;

  function now() {
    const room = width ?? Math.floor(element.clientWidth);
    if (isOver || room < 40) return null;
    drawn = room;
    const placed = layout(typeof current === "function" ? current(room) : current, room);
    place(view, placed);
    return placed;
  }

  // One run at a time; what comes meanwhile is drawn by the next.
  function redraw() {
    if (isWaiting) return running;
    isWaiting = true;
    running = running.then(async () => {
      isWaiting = false;
      const placed = now();
      if (!placed) return;
      await view.runAsync();
      spots = placed.spots(view);
    });
    return running;
  }

  const observer = new ResizeObserver(() => {
    if (width === null && Math.floor(element.clientWidth) !== drawn) requestAnimationFrame(redraw);
  });
  await redraw();
  observer.observe(element);
  return {
    view,
    update(next, words = {}) {
      current = next;
      if (words.title) drawing.setAttribute("aria-label", words.title);
      if (words.description) told.textContent = words.description;
      return redraw();
    },
    destroy() {
      isOver = true;
      observer.disconnect();
      pointer.forget();
      view.finalize();
      fill(element);
    },
  };
}

/** Library and charts, asked for once; after a failure again. */
function library() {
  asked ??= load().catch((error) => {
    asked = undefined;
    throw error;
  });
  return asked;
}

function place(view, { datasets, signals = {}, width, height = null, padding }) {
  view.padding(padding).width(width);
  if (height !== null) view.height(height);
  for (const [name, value] of Object.entries(signals)) view.signal(name, value);
  for (const [name, rows] of Object.entries(datasets)) view.data(name, rows);
}

async function load() {
  const { vega, charts } = document.documentElement.dataset;
  const [answer] = await Promise.all([fetch(charts).then((found) => found.json()), script(vega)]);
  // As text: embedding changes the object it is given.
  const specs = Object.fromEntries(Object.entries(answer).map(([name, spec]) => [name, JSON.stringify(spec)]));
  return { embed: window.vegaEmbed, specs };
}

function script(address) {
  return new Promise((resolve, reject) => {
    const element = h("script", { src: address, onload: resolve });
    element.addEventListener("error", () => {
      reject(new Error(`${address} cannot be loaded`));
    });
    document.head.append(element);
  });
}

// `ast`: expressions are interpreted, because the strict CSP lets nothing be evaluated.
function options() {
  return {
    ast: true,
    actions: false,
    defaultStyle: false,
    renderer: "svg",
    formatLocale: numberLocale(),
    tooltip: false,
  };
}

/** As d3 wants it, for the numbers on axes. */
function numberLocale() {
  const parts = new Intl.NumberFormat(language, { useGrouping: "always" }).formatToParts(-1234567.5);
  const of = (type) => parts.find((part) => part.type === type)?.value ?? "";
  return {
    decimal: of("decimal"),
    thousands: of("group"),
    grouping: [3],
    currency: ["", ""],
    minus: "\u2212",
    percent: language === "fr" ? "\u202f%" : "%",
  };
}

// Who imports this will draw: the library comes while they ask for what to draw.
library().catch(() => {});
