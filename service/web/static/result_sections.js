// The sections of one result that is explained; each takes the documents of the API.

import { get } from "./api.js";
import { headingOf, inputText, valueElement, valueOf } from "./columns.js";
import { costElement } from "./costs.js";
import { announce, h } from "./dom.js";
import { count, day, exact, hours, momentElement, money } from "./format.js";
import { grouped } from "./result_columns.js";
import { labelOf, scenarioTable } from "./scenario_table.js";
import { may, session } from "./session.js";
import { t } from "./texts.js";

function card(id, title, ...content) {
  const heading = h("h2", { id }, title);
  return h("section", { class: "card", "aria-labelledby": id }, heading, content.flat(2));
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined);
  return h("dl", { class: "facts" }, shown.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** The figures that everybody asks for first. */
export function headFigures({ result }, columns) {
  const figure = (name, unit = null) => {
    const column = columns.get(name);
    const id = `figure-${name}`;
    return h(
      "div",
      { class: "card" },
      h("p", { class: "label" }, column.label),
      h("p", { class: "big", id }, valueElement(column, result.result[name]), unit ? h("small", {}, ` ${unit}`) : null),
      h("p", { class: "hint" }, column.sentence),
    );
  };
  const cost = h(
    "div",
    { class: "card" },
    h("p", { class: "label" }, t("results.cost_of_loss")),
    h("p", { class: "big", id: "figure-cost" }, costElement(result.cost_of_loss, result.cost_status)),
    result.unpriced_days ? h("p", { class: "hint" }, t("results.unpriced_days", { days: count(result.unpriced_days) })) : null,
  );
  const gpuHours = t("common.gpu_hours");
  return h(
    "div",
    { class: "cards" },
    figure("efficiency_fraction"),
    figure("gpu_hours_lost_per_day", gpuHours),
    figure("gpu_hours_lost", gpuHours),
    cost,
    figure("useful_compute_fraction"),
    figure("displayed_utilization_fraction"),
  );
}

export function askedFor({ result, provenance }) {
  const grid = Object.entries(result.inputs).map(([path, value]) =>
    h("li", { class: "tag" }, t("common.pair", { name: labelOf(path), text: inputText(path, value) })),
  );
  return card(
    "asked",
    t("results.asked"),
    grid.length ? h("ul", { class: "tags", "aria-label": t("results.inputs") }, grid) : null,
    scenarioTable(provenance.scenario, t("results.resolved")),
  );
}

/** All output columns that were computed, by group, with unit and sentence. */
export function allFigures({ result }, columns) {
  const computed = [...columns.values()].filter((column) => result.result[column.name] !== null);
  const left = [...columns.values()].filter((column) => result.result[column.name] === null);
  const groups = grouped(computed.map((column) => ({ ...column, key: column.name })), computed);
  const heads = ["figure", "value", "meaning"].map((name) =>
    h("th", { scope: "col", class: name === "value" ? "num" : null }, t(`results.head_${name}`)),
  );
  const bodies = groups.map(({ name, columns: found }) =>
    h(
      "tbody",
      {},
      h("tr", {}, h("th", { scope: "rowgroup", colspan: 3, class: "group" }, name)),
      found.map((column) =>
        h(
          "tr",
          { dataset: { column: column.name } },
          h("th", { scope: "row" }, headingOf(column), h("code", { class: "small" }, column.name)),
          h("td", { class: "num" }, valueElement(column, result.result[column.name])),
          h("td", {}, column.sentence),
        ),
      ),
    ),
  );
  const title = t("results.all_figures");
  return card(
    "figures",
    title,
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": t("common.table_of", { name: title }) },
      h("table", {}, h("thead", {}, h("tr", {}, heads)), bodies),
    ),
    left.length ? h("p", { class: "hint" }, t("results.not_computed", { names: left.map((column) => column.label).join(", ") })) : null,
  );
}

/** Money with the rates it was made of. */
export async function moneySection({ result, provenance }) {
  const sees = await may("costs:read");
  const rates = sees ? await Promise.all(result.rates.map(rateRow)) : [];
  const heads = ["rate", "days", "price", "valid"].map((name) =>
    h("th", { scope: "col", class: name === "days" || name === "price" ? "num" : null }, t(`results.head_${name}`)),
  );
  const title = t("results.money");
  const table = h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": t("results.rates") },
    h("table", {}, h("caption", {}, t("results.rates")), h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rates)),
  );
  return card(
    "money",
    title,
    facts([
      [t("results.cost_of_loss"), costElement(result.cost_of_loss, result.cost_status)],
      [t("results.money_given_back"), result.money_given_back ? money(result.money_given_back) : null],
      [t("results.gpu_type"), provenance.gpu_type],
      [t("results.cost_center"), provenance.cost_center],
      [t("results.rates_as_of"), provenance.rates_as_of ? momentElement(provenance.rates_as_of) : null],
      [t("results.pricing"), provenance.pricing ? count(provenance.pricing) : null],
      [t("results.without_rate"), result.unpriced_days ? count(result.unpriced_days) : null],
    ]),
    rates.length ? table : null,
    result.cost_status === "no_rate" ? h("p", { class: "hint" }, t("results.no_rate_hint")) : null,
  );
}

async function rateRow({ id, days }) {
  const code = h("code", {}, id);
  let rate = null;
  try {
    rate = await get(`/v1/gpu-hour-rates/${id}`);
  } catch {
    // Its id and days say enough where it cannot be read
  }
  const until = rate?.valid_until ? t("results.valid_until", { from: day(rate.valid_from), until: day(rate.valid_until) }) : null;
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, code),
    h("td", { class: "num" }, count(days)),
    h("td", { class: "num" }, rate ? money(rate.price_per_gpu_hour) : ""),
    h("td", {}, rate ? (until ?? t("results.valid_from", { from: day(rate.valid_from) })) : ""),
  );
}

/** Where the figures come from: enough to get them again. */
export function origin({ result, provenance }, columns) {
  const figures = result.result;
  const error = figures.gpu_hours_lost_se;
  const [slug, revision] = (result.profile ?? "").split("@");
  const profile = slug ? h("a", { href: `/profiles/${encodeURIComponent(slug)}` }, result.profile) : t("results.inline");
  return card(
    "origin",
    t("results.origin"),
    facts([
      [columns.get("method").label, valueOf(columns.get("method"), figures.method)],
      [columns.get("spread_method").label, figures.spread_method && valueOf(columns.get("spread_method"), figures.spread_method)],
      [t("results.standard_error"), error === null ? null : error === 0 ? t("results.exact") : `± ${hours(error)} ${t("common.gpu_hours")}`],
      [t("results.profile"), profile],
      [t("results.revision"), revision ?? null],
      [t("results.start_on"), day(result.start_on)],
      [t("results.model_version"), result.model_version],
      [t("results.seed"), String(result.seed)],
      [t("results.digest"), h("code", {}, provenance.item_input_digest)],
      [t("results.batch"), h("a", { href: `/batches/${result.batch_id}` }, result.batch_id)],
      [t("results.point"), exact(result.point)],
      [t("results.id"), h("code", {}, result.id)],
    ]),
  );
}

/** The request that computes it again, ready to be pasted. */
export async function reproduction({ provenance }) {
  const { is_open: isOpen } = await session();
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const command = [
    `curl -s ${location.origin}/v1/evaluations`,
    ...(isOpen ? [] : ['-H "Authorization: Bearer $TRAINARD_API_KEY"']),
    "-H 'Content-Type: application/json'",
    `-d ${quoted(JSON.stringify(provenance.reproduce))}`,
  ].join(" \\\n  ");
  const code = h("pre", { tabindex: "0", "aria-label": t("results.reproduce") }, h("code", { id: "curl" }, command));
  const copy = h("button", { type: "button" }, t("common.copy"));
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command);
    copy.textContent = t("common.copied");
    announce(t("common.copied"));
  });
  const section = card("reproduce", t("results.reproduce"), h("p", { class: "hint" }, t("results.reproduce_hint")), code);
  section.append(h("div", { class: "actions" }, copy));
  return section;
}
