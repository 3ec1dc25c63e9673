// To whom a schedule's reports go, as controls: a webhook endpoint, mail or a folder, and after which runs.

import { h } from "./dom.js";
import { fieldset, setAt, valueAt } from "./form.js";
import { rawOf, recordList } from "./record_list.js";
import { named, t } from "./texts.js";

const MOST = 20;
const FORMATS = ["html", "json", "csv", "parquet", "focus"];
const KINDS = ["webhook", "email", "directory"];
const LANGUAGES = [null, "en", "fr"];
const OWN = {
  webhook: { endpoint_id: null },
  email: { to: [], attach: [] },
  directory: { folder: "", formats: ["html"], keep_days: 0 },
};
const LIMITS = ["gpu_hours_lost_per_30_days", "relative"];

/** `{element, read(), show(list), fits(value)}` of a schedule's deliveries. */
export function deliveryControls({ endpoints, seesCosts }) {
  const list = recordList({
    fields: (place, record) => deliveryFields(place, record, { endpoints, seesCosts }),
    titleOf: (place, { kind }) => t("schedules.delivery_nth", { number: place + 1, kind: named("schedules.delivery_", kind) }),
    additions: KINDS.map((kind) => ({ text: t(`schedules.add_${kind}`), record: () => fresh(kind) })),
    most: MOST,
    empty: t("schedules.no_deliveries"),
  });
  return {
    ...list,
    show: (value) => list.show(value ?? []),
    fits: (value) => value === null || value === undefined || (Array.isArray(value) && value.every((one) => KINDS.includes(one?.kind))),
  };
}

function fresh(kind) {
  return { kind, when: "always", threshold: null, include_costs: false, language: null, ...OWN[kind] };
}

function deliveryFields(place, record, { endpoints, seesCosts }) {
  const at = `/deliveries/${place}`;
  const described = (name, more) => ({ pointer: `${at}/${name}`, label: t(`schedules.delivery_${name.replaceAll("/", "_")}`), ...more });
  const hinted = (name, more) => described(name, { hint: t(`schedules.delivery_${name.replaceAll("/", "_")}_hint`), ...more });
  const formats = FORMATS.map((one) => [one, one.toUpperCase()]);
  const own = {
    webhook: [hinted("endpoint_id", { kind: "select", options: endpointOptions(endpoints, record.endpoint_id), required: true })],
    email: [hinted("to", { kind: "lines", required: true }), described("attach", { kind: "choices", options: formats })],
    directory: [
      hinted("folder", { kind: "text", required: true, placeholder: "finance/nightly" }),
      described("formats", { kind: "choices", options: formats, required: true }),
      hinted("keep_days", { kind: "number", step: 1, min: 0, max: 36_500, required: true }),
    ],
  };
  const fields = fieldset([
    ...own[record.kind],
    described("when", { kind: "select", options: ["always", "not_empty", "on_change"].map((one) => [one, named("schedules.when_", one)]) }),
    hinted("threshold/gpu_hours_lost_per_30_days", { kind: "number", above: 0, absent: true }),
    described("threshold/relative", { kind: "number", above: 0, absent: true, unit: "%", factor: 0.01 }),
    described("language", { kind: "select", options: LANGUAGES.map((one) => [one, one ? t(`common.in_${one}`) : t("schedules.language_of_report")]) }),
    ...(seesCosts ? [hinted("include_costs", { kind: "check" })] : []),
  ]);
  const when = fields.field(`${at}/when`);
  const limits = LIMITS.map((name) => fields.field(`${at}/threshold/${name}`));

  function fit() {
    for (const one of limits) one.element.hidden = when.value() !== "on_change";
  }

  when.onChange(fit);
  fields.show(setAt({}, at, { ...fresh(record.kind), ...record }));
  fit();

  function tidied(document) {
    const found = valueAt(document, at);
    const isLimited = found.when === "on_change" && LIMITS.some((name) => found.threshold?.[name] !== undefined && found.threshold[name] !== null);
    return { ...found, threshold: isLimited ? Object.fromEntries(LIMITS.map((name) => [name, found.threshold[name] ?? null])) : null };
  }

  const costs = !seesCosts && record.include_costs ? h("p", { class: "hint" }, t("schedules.delivery_with_costs")) : null;
  return {
    element: h("div", {}, fields.element, costs),
    read: () => tidied(fields.read()),
    /** As far as it can be read: what cannot is as it was. */
    raw: () => rawOf(fields, tidied, setAt({}, at, { ...fresh(record.kind), ...record })),
  };
}

function endpointOptions(endpoints, chosen) {
  const known = endpoints.map((one) => [one.id, one.enabled ? one.name : t("schedules.endpoint_disabled", { name: one.name })]);
  const isGone = chosen && !endpoints.some((one) => one.id === chosen);
  return [[null, t("schedules.choose_endpoint")], ...(isGone ? [[chosen, t("schedules.endpoint_gone", { id: chosen })]] : []), ...known];
}
