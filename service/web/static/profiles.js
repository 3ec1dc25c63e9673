// The list of cluster profiles, and a new one.

import { asked, onMoved, setAsked } from "./address.js";
import { create, get, withQuery } from "./api.js";
import { byId, fill, h, settled } from "./dom.js";
import { count, exact, momentElement } from "./format.js";
import { profileForm } from "./profile_form.js";
import { onlyWith, onSubmit } from "./submit.js";
import { table } from "./table.js";
import { t } from "./texts.js";

const PROFILES = "/v1/cluster-profiles";
const EXAMPLE = {
  slug: null,
  name: null,
  gpu_type: null,
  defaults: { num_gpus: 1024, load_ms: 30, compute_ms: 300, communication: { kind: "fixed", allreduce_ms: 80 } },
};

const archived = byId("archived");
const gpuType = byId("gpu-type");
const section = byId("new-profile");
const open = byId("open-new");

const columns = [
  { key: "slug", label: t("profiles.slug"), head: true, cell: (row) => h("a", { href: `/profiles/${row.slug}` }, row.slug) },
  { key: "name", label: t("profiles.name"), cell: named },
  { key: "gpu_type", label: t("profiles.gpu_type"), cell: (row) => row.gpu_type },
  { key: "cost_center", label: t("profiles.cost_center"), cell: (row) => row.cost_center ?? "–" },
  { key: "num_gpus", label: t("profiles.field_num_gpus"), num: true, cell: (row) => count(row.defaults.num_gpus) },
  { key: "compute_ms", label: t("profiles.head_compute"), num: true, cell: (row) => exact(row.defaults.compute_ms) },
  { key: "tags", label: t("profiles.tags"), cell: tagsOf },
  { key: "revision", label: t("profiles.revision"), num: true, cell: (row) => exact(row.revision) },
  { key: "updated_at", label: t("profiles.updated_at"), cell: (row) => momentElement(row.updated_at) },
];

function named(row) {
  return row.archived_at ? h("span", {}, row.name, " ", h("span", { class: "tag" }, t("profiles.archived"))) : row.name;
}

function tagsOf(row) {
  const tags = Object.entries(row.tags).map(([key, value]) => h("span", { class: "tag" }, `${key}: ${value}`));
  return tags.length ? h("span", { class: "tags" }, tags) : "–";
}

function readAddress() {
  archived.checked = asked().get("archived") === "yes";
  gpuType.value = asked().get("gpu_type") ?? "";
  section.hidden = !asked().has("new");
  open.setAttribute("aria-expanded", String(!section.hidden));
}

readAddress();
const list = table(byId("profiles"), {
  columns,
  caption: t("profiles.caption"),
  empty: t("profiles.empty"),
  rowKey: (row) => row.slug,
  address: "",
  filters: () => ({ include_archived: archived.checked || null, gpu_type: gpuType.value.trim() || null }),
  load: ({ pageToken, filters, pageSize, signal }) =>
    get(withQuery(PROFILES, { ...filters, page_size: pageSize, page_token: pageToken }), { signal }),
});

function filter() {
  setAsked({ archived: archived.checked ? "yes" : null, gpu_type: gpuType.value.trim() });
  list.filter();
}
archived.addEventListener("change", filter);
gpuType.addEventListener("input", settled(filter, 300));
onMoved(readAddress);

const form = byId("profile-form");
const content = profileForm({ isNew: true });
content.show(EXAMPLE);
fill(byId("profile-fields"), content.element);
open.addEventListener("click", () => {
  setAsked({ new: section.hidden ? "yes" : null }, { push: true });
  readAddress();
  if (!section.hidden) section.querySelector("input").focus();
});
onSubmit(form, async () => {
  const { data } = await create(PROFILES, content.read());
  location.assign(`/profiles/${data.slug}`);
});
if (!(await onlyWith("profiles:write", [open], byId("permission")))) section.hidden = true;
