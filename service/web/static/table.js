// A table of rows that the API answers page by page: sorting, paging and its states.

import { asked, onMoved, setAsked } from "./address.js";
import { announce, fill, h } from "./dom.js";
import { count } from "./format.js";
import { backOff, isOutage } from "./outage.js";
import { counted, t } from "./texts.js";

const SIZES = [25, 50, 100, 250];
const PRESSED = "a[href], button, summary";

/**
 * Put a table into `element`.
 *
 * - `columns`: `{key, label, cell(row) → Node|string, num?, head?, sort?, hint?}`; `sort` is the name
 *   of `order_by`, or true where it is the key; `head` makes the cell the heading of its row;
 * - `load({pageToken, orderBy, filters, pageSize, signal}) → {items, next_page_token}`;
 * - `caption`, `empty`: texts; `rowKey(row)`: what tells rows apart;
 * - `filters`: an object, or a function that answers the present one;
 * - `orderBy`: the order that is asked for until a heading is pressed (null: the API's own);
 * - `address`: the beginning of the names ("" for the main table) under which order, page and size
 *   are kept in the query string; null keeps them nowhere;
 * - `shown`: keys of the columns that are shown (default: all);
 * - `loaded(answer)`: told of each answer;
 * - `again`: `{everyMs, when(row)}`: while one of the rows is so, the table looks again by itself, tells
 *   nobody of it, and draws only what moved.
 */
export function table(element, options) {
  const { columns, load, caption, rowKey = (row) => row.id, address = null } = options;
  let shown = options.shown ?? columns.map((column) => column.key);
  let filters = options.filters ?? {};
  let state = restored();
  let nextToken = null;
  let running = null;
  let retry = null;
  // What is drawn, to see whether anything has moved
  let drawn = null;
  const pace = backOff();

  const head = h("tr");
  const body = h("tbody");
  const whole = h("table", {}, h("caption", {}, caption), h("thead", {}, head), body);
  const region = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, whole);
  const place = h("span", { class: "quiet" });
  const first = pagerButton("table_first", () => go([null]));
  const previous = pagerButton("table_previous", () => go(state.tokens.slice(0, -1)));
  const next = pagerButton("table_next", () => go([...state.tokens, nextToken]));
  const size = h(
    "select",
    { onchange: () => turn({ pageSize: Number(size.value), tokens: [null] }) },
    SIZES.map((one) => h("option", { value: one }, count(one))),
  );
  const sizes = h("label", { class: "size" }, t("common.table_size"), size);
  const pager = h("div", { class: "pager" }, place, first, previous, next, sizes);
  fill(element, region, pager);

  function restored() {
    const query = asked();
    const at = address === null ? null : query.get(`${address}page`);
    const tokens = history.state?.[`${address}pages`];
    return {
      orderBy: (address === null ? null : query.get(`${address}order_by`)) ?? options.orderBy ?? null,
      pageSize: Number(address === null ? 0 : query.get(`${address}page_size`)) || options.pageSize || 50,
      // A link knows its own page, but not those before it
      tokens: at ? (tokens?.at(-1) === at ? tokens : [null, at]) : [null],
    };
  }

  function turn(change, push = true) {
    state = { ...state, ...change };
    if (address !== null) {
      setAsked(
        {
          [`${address}order_by`]: state.orderBy === (options.orderBy ?? null) ? null : state.orderBy,
          [`${address}page`]: state.tokens.at(-1),
          [`${address}page_size`]: state.pageSize === (options.pageSize ?? 50) ? null : state.pageSize,
        },
        { push, state: { [`${address}pages`]: state.tokens } },
      );
    }
    return show();
  }

  async function go(tokens) {
    await turn({ tokens: tokens.length ? tokens : [null] });
    // A page is read from its top, which is above the view when one has paged from the bottom
    const { top } = region.getBoundingClientRect();
    if (top < 0 || top > innerHeight) region.scrollIntoView({ block: "start" });
  }

  function pressed(column) {
    const name = column.sort === true ? column.key : column.sort;
    // Numbers are looked for from the largest, names from A; then the other way; then as before
    const turns = column.num ? [`-${name}`, name] : [name, `-${name}`];
    const at = turns.indexOf(state.orderBy);
    const orderBy = at === turns.length - 1 ? (options.orderBy ?? null) : turns[at + 1];
    turn({ orderBy: orderBy === state.orderBy ? turns[0] : orderBy, tokens: [null] });
  }

  function drawHead() {
    fill(head, visible().map((column) => {
      const cls = column.num ? "num" : null;
      if (!column.sort) return h("th", { scope: "col", class: cls, title: column.hint }, column.label);
      const name = column.sort === true ? column.key : column.sort;
      const order = state.orderBy === name ? "ascending" : state.orderBy === `-${name}` ? "descending" : null;
      const mark = h("span", { "aria-hidden": "true" }, order === "ascending" ? "▲" : order ? "▼" : "↕");
      const button = h(
        "button",
        { type: "button", class: "sort", title: column.hint, onclick: () => pressed(column), dataset: { sort: name } },
        column.label,
        mark,
      );
      return h("th", { scope: "col", class: cls, "aria-sort": order ?? "none" }, button);
    }));
  }

  /** The heading that was pressed is drawn anew: the keyboard stays on it. */
  function redrawHead() {
    const held = head.contains(document.activeElement) ? document.activeElement.dataset.sort : null;
    drawHead();
    if (held) head.querySelector(`[data-sort="${CSS.escape(held)}"]`)?.focus();
  }

  function visible() {
    return shown.map((key) => columns.find((column) => column.key === key)).filter(Boolean);
  }

  function message(...content) {
    fill(body, h("tr", {}, h("td", { colspan: visible().length, class: "empty" }, h("div", { class: "in-view" }, content))));
  }

  function rowElement(row) {
    const cells = visible().map((column) => {
      const tag = column.head ? "th" : "td";
      return h(tag, { class: column.num ? "num" : null, scope: column.head ? "row" : null }, column.cell(row));
    });
    return h("tr", { dataset: { row: rowKey(row) } }, cells);
  }

  async function show({ quiet = false } = {}) {
    redrawHead();
    running?.abort();
    clearTimeout(retry);
    const mine = new AbortController();
    running = mine;
    if (!quiet) region.setAttribute("aria-busy", "true");
    if (!body.rows.length || body.querySelector(".empty:not(:has(.worse))")) message(t("common.loading"));
    try {
      const answer = await load({
        pageToken: state.tokens.at(-1),
        orderBy: state.orderBy,
        filters: typeof filters === "function" ? filters() : filters,
        pageSize: state.pageSize,
        signal: mine.signal,
      });
      if (running !== mine) return;
      pace.over();
      nextToken = answer.next_page_token ?? null;
      api.rows = answer.items;
      drawBody(answer.items, quiet);
      options.loaded?.(answer);
      if (options.again && answer.items.some(options.again.when)) lookAgain(options.again.everyMs);
      if (!quiet) announce(t("common.pair", { name: caption, text: counted("common.table_rows", answer.items.length, count(answer.items.length)) }));
    } catch (problem) {
      if (problem.name === "AbortError" || running !== mine) return;
      const said = [problem.title, problem.detail].filter(Boolean).join(": ") || String(problem);
      // Rows that are only looked at again stay, with the word that they are not of now
      if (quiet && api.rows.length && isOutage(problem)) {
        fill(place, h("span", { class: "worse" }, t("common.table_stale", { why: said })));
        lookAgain(pace.after(problem));
        return;
      }
      nextToken = null;
      api.rows = [];
      drawn = null;
      failed(problem, said);
      region.removeAttribute("aria-busy");
      drawPager();
      // How many there are is not known
      fill(place);
      return;
    }
    region.removeAttribute("aria-busy");
    drawPager();
  }

  function lookAgain(wait) {
    clearTimeout(retry);
    retry = setTimeout(() => show({ quiet: true }), wait);
  }

  function drawBody(items, quiet) {
    const now = JSON.stringify([shown, items]);
    if (quiet && now === drawn) return;
    drawn = now;
    // Who pressed "try again" goes on in the table: the button is gone
    if (body.querySelector(".empty")?.contains(document.activeElement)) region.focus();
    const held = heldPlace();
    if (items.length) fill(body, items.map(rowElement));
    else message(options.empty ?? t("common.none"));
    if (!held) return;
    const row = body.querySelector(`[data-row="${CSS.escape(held.key)}"]`);
    (row?.querySelectorAll(PRESSED)[held.at] ?? region).focus({ preventScroll: true });
  }

  /** Which row and which of its buttons and links has the keyboard, which drawing anew would lose. */
  function heldPlace() {
    const at = document.activeElement;
    const row = body.contains(at) ? at.closest("[data-row]") : null;
    return row && { key: row.dataset.row, at: [...row.querySelectorAll(PRESSED)].indexOf(at) };
  }

  function failed(problem, said) {
    const again = h("button", { type: "button", onclick: () => show() }, t("common.again"));
    // What fails again with the same words is not told, nor drawn, again: its button may have the focus.
    if (body.querySelector(".empty .worse")?.textContent !== said) message(h("p", { role: "alert", class: "worse" }, said), again);
    if (isOutage(problem)) lookAgain(pace.after(problem));
  }

  function drawPager() {
    const page = state.tokens.length;
    fill(place, [
      counted("common.table_rows", api.rows.length, count(api.rows.length)),
      page > 1 || nextToken ? ` · ${t("common.table_page", { page: count(page) })}` : "",
    ]);
    const held = pager.contains(document.activeElement) ? document.activeElement : null;
    for (const button of [first, previous]) button.disabled = page === 1;
    next.disabled = !nextToken;
    const isSingle = page === 1 && !nextToken;
    for (const button of [first, previous, next]) button.hidden = isSingle;
    // At the last page "next" can be pressed no longer: the keyboard goes to the rows
    if (held?.disabled || held?.hidden) region.focus();
    sizes.hidden = isSingle && api.rows.length <= SIZES[0];
    if (![...size.options].some((option) => option.value === String(state.pageSize))) {
      size.append(h("option", { value: state.pageSize }, count(state.pageSize)));
    }
    size.value = String(state.pageSize);
  }

  function pagerButton(text, onclick) {
    return h("button", { type: "button", class: "quiet", hidden: true, onclick }, t(`common.${text}`));
  }

  if (address !== null) {
    onMoved(() => {
      state = restored();
      show();
    });
  }

  const api = {
    /** The rows that are shown. */
    rows: [],
    /** Ask again for the present page; `{quiet: true}` tells nobody of it. */
    reload: show,
    /** Other filters (default: the same function's): the first page of them. */
    filter(changed = filters, { push = false } = {}) {
      filters = changed;
      return turn({ tokens: [null] }, push);
    },
    /** Show these columns, in this order, without asking anew. */
    setColumns(keys) {
      shown = keys;
      redrawHead();
      if (api.rows.length) fill(body, api.rows.map(rowElement));
      else if (body.querySelector(".empty")) body.querySelector(".empty").colSpan = visible().length;
    },
    /** The order that is asked for. */
    get orderBy() {
      return state.orderBy;
    },
  };
  show();
  return api;
}
