// Calibrations: those that there are, new ones from files, a coarse start, and the overlap audit.

import { asked, onMoved, setAsked } from "./address.js";
import { get, withQuery } from "./api.js";
import { byId, fill, h, settled } from "./dom.js";
import { count, momentElement, ms } from "./format.js";
import { auditForm } from "./calibration_audit.js";
import { coarseForm } from "./calibration_coarse.js";
import { verdictTag } from "./calibration_overlap.js";
import { previewOf } from "./calibration_preview.js";
import { uploadForm } from "./calibration_upload.js";
import { ratio, share } from "./calibration_words.js";
import { sayCarried } from "./carried_word.js";
import { may } from "./session.js";
import { onlyWith } from "./submit.js";
import { table } from "./table.js";
import { t } from "./texts.js";

const CALIBRATIONS = "/v1/calibrations";
const STATES = ["proposed", "accepted"];
const PARTS = ["new", "coarse", "audit"];
const filters = { state: byId("filter-state"), profile: byId("filter-profile"), name: byId("filter-name") };

const columns = [
  { key: "name", label: t("calibrations.name"), head: true, cell: (row) => h("a", { href: `/calibrations/${row.id}` }, row.name) },
  { key: "state", label: t("calibrations.state"), cell: stateOf },
  { key: "profile", label: t("calibrations.profile"), cell: profileOf },
  { key: "ranks", label: t("calibrations.num_ranks"), num: true, cell: (row) => count(row.num_ranks) },
  { key: "steps", label: t("calibrations.num_steps"), num: true, cell: (row) => count(row.num_steps) },
  { key: "compute", label: t("calibrations.head_compute_ms"), num: true, cell: (row) => ms(row.compute_ms) },
  { key: "persistent", label: t("calibrations.head_persistent"), hint: t("calibrations.persistent_hint"), num: true, cell: (row) => share(row.persistent_cv) },
  { key: "transient", label: t("calibrations.head_transient"), hint: t("calibrations.transient_hint"), num: true, cell: (row) => share(row.transient_cv) },
  { key: "outliers", label: t("calibrations.num_outliers"), num: true, cell: (row) => (row.num_outliers ? h("strong", { class: "worse" }, count(row.num_outliers)) : count(0)) },
  { key: "gap", label: t("calibrations.head_gap"), hint: t("calibrations.gap_hint"), num: true, cell: (row) => ratio(row.slowest_to_median_mean_ratio) },
  { key: "verdict", label: t("calibrations.overlap"), cell: (row) => verdictTag(row.overlap_verdict) },
  { key: "when", label: t("calibrations.created_at"), cell: (row) => h("span", {}, momentElement(row.created_at), h("div", { class: "hint" }, row.created_by)) },
];

function stateOf(row) {
  return h("span", { class: row.state === "accepted" ? "tag good" : "tag" }, t(`calibrations.state_${row.state}`));
}

function profileOf(row) {
  const as = row.accepted_as;
  if (as) return h("a", { href: withQuery(`/profiles/${as.slug}`, { revision: as.revision }) }, `${as.slug}@${as.revision}`);
  return row.profile ? h("a", { href: `/profiles/${row.profile.split("@")[0]}` }, row.profile) : "–";
}

function readFilters() {
  for (const [name, input] of Object.entries(filters)) input.value = asked().get(name) ?? "";
}

function filter() {
  setAsked(Object.fromEntries(Object.entries(filters).map(([name, input]) => [name, input.value.trim()])));
  list.filter();
}

function showParts(isFocused = false) {
  for (const name of PARTS) {
    const is = asked().has(name) && allowed[name];
    byId(`part-${name}`).hidden = !is;
    byId(`open-${name}`).setAttribute("aria-expanded", String(is));
    if (is && isFocused) byId(`part-${name}`).querySelector("input").focus();
  }
}

/** One at a time; null closes. */
function openPart(name) {
  setAsked({ ...Object.fromEntries(PARTS.map((one) => [one, one === name ? "yes" : null])), of: null }, { push: true });
  showParts(true);
}

async function suggestProfiles() {
  if (!(await may("profiles:read"))) return;
  const { items } = await get("/v1/cluster-profiles?page_size=200");
  byId("profiles").replaceChildren(...items.map((one) => h("option", { value: one.slug }, one.name)));
}

fill(filters.state, h("option", { value: "" }, t("calibrations.any_state")), STATES.map((state) => h("option", { value: state }, t(`calibrations.state_${state}`))));
readFilters();
const list = table(byId("calibrations"), {
  columns,
  caption: t("calibrations.caption"),
  empty: t("calibrations.empty"),
  address: "",
  filters: () => ({
    state: filters.state.value,
    profile: filters.profile.value.trim().toLowerCase(),
    name_contains: filters.name.value.trim(),
  }),
  load: ({ pageToken, filters: chosen, pageSize, signal }) =>
    get(withQuery(CALIBRATIONS, { ...chosen, page_size: pageSize, page_token: pageToken }), { signal }),
});
filters.state.addEventListener("change", filter);
for (const input of [filters.profile, filters.name]) input.addEventListener("input", settled(filter, 300));
document.querySelector("form.filters").addEventListener("submit", (event) => event.preventDefault());

const preview = byId("preview");
const upload = uploadForm({
  stored: (found) => location.assign(`/calibrations/${found.id}`),
  previewed: (found) => {
    preview.hidden = false;
    fill(preview, previewOf(found));
    preview.querySelector("[tabindex]").focus();
  },
});
byId("upload-form").addEventListener("submit", () => {
  preview.hidden = true;
});
coarseForm();
auditForm();
if (asked().get("of")) upload.setProfile(asked().get("of"));

const [mayWrite, mayRun] = [await onlyWith("calibrations:write", [byId("open-new")], byId("permission")), await may("evaluations:run")];
const allowed = { new: mayWrite, coarse: mayRun, audit: mayRun };
for (const name of PARTS) {
  const button = byId(`open-${name}`);
  button.hidden = !allowed[name];
  button.addEventListener("click", () => openPart(byId(`part-${name}`).hidden ? name : null));
}
for (const button of document.querySelectorAll("[data-close]")) {
  button.addEventListener("click", () => {
    const part = button.closest("section");
    openPart(null);
    byId(part.id.replace("part-", "open-")).focus();
  });
}
onMoved(() => {
  readFilters();
  showParts();
});
showParts();
suggestProfiles();
sayCarried();
