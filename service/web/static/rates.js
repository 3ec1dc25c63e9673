// GPU-hour rates: which there are, which one prices a day, and new ones.

import { asked, onMoved, setAsked } from "./address.js";
import { ask, get, withQuery } from "./api.js";
import { announce, byId, h, settled } from "./dom.js";
import { day, money, momentElement } from "./format.js";
import { correctionForm, newRateForm } from "./rate_forms.js";
import { importForm } from "./rate_import.js";
import { resolution } from "./rate_resolution.js";
import { attempt, confirmed, onlyWith } from "./submit.js";
import { session } from "./session.js";
import { table } from "./table.js";
import { t } from "./texts.js";

const RATES = "/v1/gpu-hour-rates";
const who = await session();
const scopes = who.scopes;
const filters = { gpu_type: byId("filter-gpu-type"), currency: byId("filter-currency") };
const superseded = byId("superseded");
const waiting = byId("waiting");

const columns = [
  { key: "gpu_type", label: t("rates.gpu_type"), head: true, cell: (row) => row.gpu_type },
  { key: "cost_center", label: t("rates.cost_center"), cell: (row) => row.cost_center ?? h("span", { class: "quiet" }, t("rates.any")) },
  { key: "price", label: t("rates.price"), num: true, cell: (row) => money(row.price_per_gpu_hour) },
  { key: "valid_from", label: t("rates.valid_from"), cell: (row) => day(row.valid_from) },
  { key: "valid_until", label: t("rates.valid_until"), cell: (row) => (row.valid_until ? day(row.valid_until) : t("rates.open_end")) },
  { key: "source", label: t("rates.source"), cell: sourceOf },
  { key: "state", label: t("rates.state"), cell: stateOf },
  { key: "actions", label: t("rates.actions"), cell: actionsOf },
];

function sourceOf(row) {
  const reason = row.reason ? h("div", { class: "hint" }, t("rates.because", { reason: row.reason })) : null;
  return h("div", {}, row.source, reason);
}

function stateOf(row) {
  const who = h("div", { class: "hint" }, row.recorded_by, " · ", momentElement(row.recorded_at));
  if (row.superseded_by) return h("div", {}, h("span", { class: "tag" }, t("rates.superseded")), who);
  const tag = row.approved_by
    ? h("span", { class: "tag good", title: row.approved_by }, t("rates.approved_by", { name: row.approved_by }))
    : h("span", { class: "tag warn" }, t("rates.not_approved"));
  return h("div", {}, tag, who);
}

function actionsOf(row) {
  if (row.superseded_by) return "";
  const named = t("rates.named", { gpu_type: row.gpu_type, price: money(row.price_per_gpu_hour), from: day(row.valid_from) });
  const correct = h("button", { type: "button", class: "link", "aria-label": t("rates.correct_named", { named }), onclick: () => openPart("correct", row.id) }, t("rates.correct"));
  const approve = h("button", { type: "button", class: "link", "aria-label": t("rates.approve_named", { named }), onclick: (event) => approveRate(event.target, row, named) }, t("rates.approve"));
  return h("div", { class: "tags" }, scopes.includes("costs:write") ? correct : null, scopes.includes("costs:approve") && !row.approved_by ? approve : null);
}

async function approveRate(button, row, named) {
  if (!(await confirmed(t("rates.approve_question", { named }), t("rates.approve")))) return;
  await attempt(button, async () => {
    const { headers } = await ask("GET", `${RATES}/${row.id}`);
    await ask("POST", `${RATES}/${row.id}/approval`, { headers: { "If-Match": headers.get("etag") } });
    announce(t("rates.was_approved"));
    await changed();
  });
}

/** Parts that are opened by the address, one at a time: new, import, correct=id. */
const PARTS = ["new", "import", "correct"];
let list;
let prices;
let correction;

function openPart(name, value = "yes") {
  setAsked(Object.fromEntries(PARTS.map((one) => [one, one === name ? value : null])), { push: true });
  showParts(true);
}

function closeParts() {
  setAsked(Object.fromEntries(PARTS.map((one) => [one, null])));
  showParts();
}

async function showParts(isFocused = false) {
  const mayWrite = scopes.includes("costs:write");
  const id = asked().get("correct");
  // Before it is seen: what is typed already would be written over.
  if (id && mayWrite) await correction.show(id);
  for (const name of PARTS) byId(`part-${name}`).hidden = !asked().has(name) || !mayWrite;
  for (const name of ["new", "import"]) byId(`open-${name}`).setAttribute("aria-expanded", String(!byId(`part-${name}`).hidden));
  const part = PARTS.find((name) => asked().has(name));
  if (isFocused && part) byId(`part-${part}`).querySelector("input, textarea")?.focus();
}

async function changed() {
  await list.reload();
  await prices.reload();
}

async function recorded(sentence) {
  closeParts();
  await changed();
  announce(sentence);
  byId("main").focus();
}

function readAddress() {
  for (const [name, input] of Object.entries(filters)) input.value = asked().get(name) ?? "";
  superseded.checked = asked().get("superseded") === "yes";
  waiting.checked = asked().get("waiting") === "yes";
}

function filter() {
  const shown = Object.fromEntries(Object.entries(filters).map(([name, input]) => [name, input.value.trim()]));
  setAsked({ ...shown, superseded: superseded.checked ? "yes" : null, waiting: waiting.checked ? "yes" : null });
  list.filter();
}

async function suggestGpuTypes() {
  const profiles = scopes.includes("profiles:read") ? (await get("/v1/cluster-profiles?page_size=200")).items : [];
  const known = [...new Set(profiles.map((one) => one.gpu_type))].sort();
  byId("gpu-types").replaceChildren(...known.map((value) => h("option", { value })));
}

function begin() {
  byId("content").hidden = false;
  readAddress();
  list = table(byId("rates"), {
    columns: columns.filter((one) => one.key !== "actions" || scopes.includes("costs:write") || scopes.includes("costs:approve")),
    caption: t("rates.caption"),
    empty: t("rates.empty"),
    address: "",
    filters: () => ({
      gpu_type: filters.gpu_type.value.trim(),
      currency: filters.currency.value.trim().toUpperCase(),
      include_superseded: superseded.checked || null,
      approved: waiting.checked ? false : null,
    }),
    load: ({ pageToken, filters: chosen, pageSize, signal }) =>
      get(withQuery(RATES, { ...chosen, page_size: pageSize, page_token: pageToken }), { signal }),
  });
  prices = resolution(byId("resolution-form"), byId("resolution"));
  newRateForm(byId("new-form"), () => recorded(t("rates.was_recorded")));
  correction = correctionForm(byId("correct-form"), () => recorded(t("rates.was_corrected")));
  importForm(byId("import-form"), (number) => recorded(t("rates.were_imported", { count: number })));
  for (const input of Object.values(filters)) input.addEventListener("input", settled(filter, 300));
  for (const box of [superseded, waiting]) box.addEventListener("change", filter);
  for (const name of ["new", "import"]) {
    byId(`open-${name}`).addEventListener("click", () => (byId(`part-${name}`).hidden ? openPart(name) : closeParts()));
  }
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", closeParts);
  onMoved(() => {
    readAddress();
    showParts();
    prices.reload();
  });
  showParts();
  suggestGpuTypes();
}

// Who may not see costs is told so here: the API is not asked for what it would refuse.
if (scopes.includes("costs:read")) {
  await onlyWith("costs:write", [byId("open-new"), byId("open-import")], byId("permission"));
  begin();
} else if (who.is_open || who.signed_in) {
  byId("withheld").hidden = false;
} else {
  location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
}
