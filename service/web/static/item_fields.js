// What a schedule computes, as controls: scenarios of profiles, or written out as JSON.

import { h } from "./dom.js";
import { FieldFault, fieldset, setAt, valueAt } from "./form.js";
import { count } from "./format.js";
import { rawOf, recordList } from "./record_list.js";
import { t } from "./texts.js";

const AT = "/batch";
const MOST = 50;
// What has no control is kept, and named
const SHOWN = ["custom_id", "name", "profile", "scenario", "overrides", "pricing"];
// Of the founding page: one GPU of 1 024 has 70 % of the speed
const EXAMPLE = { num_gpus: 1024, load_ms: 30, compute_ms: 300, communication: { kind: "fixed", allreduce_ms: 80 }, slow_groups: [{ count: 1, speed_fraction: 0.7 }] };
const PROFILE = /^([^@]+)(?:@([1-9]\d*))?$/;

/** `{element, read(), show(batch), fits(value)}` of a schedule's batch. */
export function batchControls({ profiles }) {
  const own = fieldset(
    [
      { pointer: `${AT}/currency`, kind: "text", list: ["EUR", "USD", "GBP", "CHF"], pattern: /^[A-Z]{3}$/, wanted: t("common.give_currency") },
      { pointer: `${AT}/metadata`, kind: "pairs", rows: 2 },
    ].map((one) => ({ ...one, label: t(`schedules.batch_${one.pointer.split("/").at(-1)}`), hint: t(`schedules.batch_${one.pointer.split("/").at(-1)}_hint`) })),
  );
  const items = recordList({
    fields: (place, item) => itemFields(place, item, profiles),
    titleOf: (place) => t("schedules.item_nth", { number: place + 1 }),
    additions: [
      { text: t("schedules.add_profile_item"), record: () => ({ custom_id: "", name: null, profile: "", overrides: {} }) },
      { text: t("schedules.add_scenario_item"), record: () => ({ custom_id: "", name: null, scenario: EXAMPLE, overrides: {} }) },
    ],
    most: MOST,
    full: t("schedules.form_full", { most: count(MOST) }),
  });
  return {
    element: h("div", {}, items.element, own.element),
    read() {
      const faults = [];
      const [listed, document] = [items.read, own.read].map((read) => caught(read, faults));
      if (faults.length) throw new FieldFault(faults);
      if (!listed.length) throw new FieldFault([{ pointer: `${AT}/items`, detail: t("schedules.needs_item") }]);
      return { ...valueAt(document, AT), items: listed };
    },
    show(batch) {
      own.show({ batch });
      items.show(batch?.items ?? []);
    },
    misfit: (batch) => (Array.isArray(batch?.items) && batch.items.length > MOST ? t("schedules.too_many_items", { count: count(batch.items.length), most: count(MOST) }) : null),
    fits: (batch) => batch !== null && typeof batch === "object" && Array.isArray(batch.items) && batch.items.length <= MOST && batch.items.every(itemFits),
  };
}

function caught(read, faults) {
  try {
    return read();
  } catch (fault) {
    if (!(fault instanceof FieldFault)) throw fault;
    faults.push(...fault.errors);
    return undefined;
  }
}

function itemFits(item) {
  if (item === null || typeof item !== "object") return false;
  const { profile } = item;
  return profile === null || profile === undefined || PROFILE.test(profile) || profile === "";
}

function itemFields(place, item, profiles) {
  const at = `${AT}/items/${place}`;
  const isInline = typeof item.profile !== "string";
  const described = (name, more) => ({ pointer: `${at}/${name}`, label: t(`schedules.item_${name.replaceAll("/", "_")}`), hint: t(`schedules.item_${name.replaceAll("/", "_")}_hint`), ...more });
  const source = isInline
    ? [described("scenario", { kind: "json", rows: 8, required: true })]
    : [described("profile", { kind: "text", required: true, list: profiles }), described("revision", { kind: "number", step: 1, min: 1 })];
  const fields = fieldset([
    ...source,
    described("name", { kind: "text" }),
    described("custom_id", { kind: "text", required: true }),
    described("overrides", { kind: "json", rows: 3, placeholder: '{"num_gpus": 512}' }),
    ...(isInline ? [described("pricing/gpu_type", { kind: "text", absent: true }), described("pricing/cost_center", { kind: "text", absent: true })] : []),
  ]);
  const shown = setAt({}, at, split(item));
  fields.show(shown);
  const others = Object.keys(item).filter((key) => !SHOWN.includes(key) && !isNothing(item[key]));
  const kept = others.length ? h("p", { class: "hint" }, t("schedules.item_kept", { names: others.join(", ") })) : null;

  const tidied = (document) => joined(valueAt(document, at), item);
  return {
    element: h("div", {}, fields.element, kept),
    read: () => tidied(fields.read()),
    raw: () => rawOf(fields, tidied, shown),
  };
}

function isNothing(value) {
  if (value === null || value === undefined || value === "scenario") return true;
  return typeof value === "object" && !Object.keys(value).length;
}

/** `slug@3` as the two fields that it has here. */
function split(item) {
  if (typeof item.profile !== "string") return item;
  const [, slug, revision] = PROFILE.exec(item.profile) ?? [null, item.profile];
  return { ...item, profile: slug, revision: revision ? Number(revision) : null };
}

/** The item as the API takes it: what was not there and is not filled in stays away. */
function joined({ revision, pricing, ...rest }, before) {
  const found = { ...rest, overrides: rest.overrides ?? {} };
  // Emptied to be written anew: it is still one of a profile
  if (typeof before.profile === "string") found.profile ??= "";
  if (found.profile && revision) found.profile = `${found.profile}@${revision}`;
  if (pricing?.gpu_type || pricing?.cost_center) found.pricing = { gpu_type: pricing.gpu_type ?? "", cost_center: pricing.cost_center ?? null };
  else if ("pricing" in before) found.pricing = null;
  return found;
}
