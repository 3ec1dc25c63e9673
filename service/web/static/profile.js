// One cluster profile: what it assumes, what changed from revision to revision, and the next one.

import { asked, onMoved, setAsked } from "./address.js";
import { ask, create, get, withQuery } from "./api.js";
import { announce, byId, fill, h } from "./dom.js";
import { exact, momentElement } from "./format.js";
import { driftOf } from "./back_test_parts.js";
import { sayCarried } from "./carried_word.js";
import { profileForm } from "./profile_form.js";
import { showProblem } from "./problems.js";
import { changesOf, labelOf, scenarioTable, unitOf, valueText } from "./scenario_table.js";
import { may } from "./session.js";
import { attempt, confirmed, onlyWith, onSubmit } from "./submit.js";
import { t } from "./texts.js";

const slug = decodeURIComponent(location.pathname.split("/").at(-1));
const ADDRESS = `/v1/cluster-profiles/${encodeURIComponent(slug)}`;
const LABELS = ["name", "gpu_type", "cost_center", "tags"];

let profile = null;
let etag = null;
let revisions = [];
let nextToken = null;
let mayWrite = false;

const content = profileForm({ isNew: false });
fill(byId("profile-fields"), content.element);

async function load() {
  const answer = await ask("GET", ADDRESS);
  profile = answer.data;
  etag = answer.headers.get("etag");
  await loadRevisions(null);
  show();
}

async function loadRevisions(token) {
  const page = await get(withQuery(`${ADDRESS}/revisions`, { page_token: token, page_size: 20 }));
  revisions = token ? [...revisions, ...page.items] : page.items;
  nextToken = page.next_page_token;
}

function show() {
  document.title = `${profile.name} · Trainard`;
  byId("profile-name").textContent = profile.name;
  byId("archived").hidden = !profile.archived_at;
  byId("profile-actions").hidden = false;
  byId("to-simulator").href = withQuery("/", { profile: slug });
  byId("to-history").href = withQuery("/history", { profile: slug });
  byId("to-calibrate").href = withQuery("/calibrations", { new: "yes", of: slug });
  byId("to-tests").href = withQuery("/back-tests", { profile: slug });
  byId("archive").hidden = !mayWrite || Boolean(profile.archived_at);
  byId("take-back").hidden = !mayWrite || !profile.archived_at;
  byId("edit").hidden = !mayWrite || Boolean(profile.archived_at);
  showFacts();
  showRevision();
  showRevisions();
  showForm();
}

function showFacts() {
  const tags = Object.entries(profile.tags).map(([key, value]) => h("span", { class: "tag" }, `${key}: ${value}`));
  const facts = [
    ["slug", h("code", {}, profile.slug)],
    ["revision", exact(profile.revision)],
    ["gpu_type", profile.gpu_type],
    ["cost_center", profile.cost_center ?? "–"],
    ["tags", tags.length ? h("span", { class: "tags" }, tags) : "–"],
    ["team", profile.team],
    ["created_at", h("span", {}, momentElement(profile.created_at), ` · ${profile.created_by}`)],
    ["updated_at", momentElement(profile.updated_at)],
    ...(profile.archived_at ? [["archived_at", momentElement(profile.archived_at)]] : []),
  ];
  fill(byId("facts"), facts.flatMap(([key, value]) => [h("dt", {}, t(`profiles.${key}`)), h("dd", {}, value)]));
}

/** The revision that the address names, else the newest. */
async function showRevision() {
  const chosen = () => Number(asked().get("revision")) || profile.revision;
  const number = chosen();
  try {
    const known = revisions.find((one) => one.revision === number);
    const shown = known ?? (await get(`${ADDRESS}/revisions/${number}`));
    if (number !== chosen()) return;
    const isNewest = number === profile.revision;
    const caption = t(isNewest ? "profiles.assumes_newest" : "profiles.assumes_revision", { revision: exact(number) });
    fill(byId("defaults"), scenarioTable(shown.defaults, caption));
    byId("newest").hidden = isNewest;
  } catch (problem) {
    showProblem(problem);
  }
}

function choose(revision) {
  setAsked({ revision: revision === profile.revision ? null : revision }, { push: true });
  showRevision();
  showRevisions();
  byId("defaults-title").scrollIntoView({ block: "nearest" });
  announce(t("profiles.assumes_revision", { revision: exact(revision) }));
}

function showRevisions() {
  const chosen = Number(asked().get("revision")) || profile.revision;
  const items = revisions.map((one, place) => {
    const before = revisions[place + 1];
    const button = h(
      "button",
      { type: "button", class: "link", "aria-pressed": String(one.revision === chosen), onclick: () => choose(one.revision) },
      t("profiles.revision_n", { revision: exact(one.revision) }),
    );
    const head = h("p", { class: "spread" }, button, h("span", { class: "hint" }, momentElement(one.created_at), ` · ${one.created_by}`));
    return h("li", {}, head, provenanceOf(one), before || one.revision === 1 ? changesList(before, one) : null);
  });
  fill(byId("revisions"), items);
  byId("more-revisions").hidden = !nextToken;
}

/** Which timings a revision comes from; nothing where somebody wrote it. */
function provenanceOf({ provenance }) {
  if (!provenance) return null;
  const link = h("a", { href: `/calibrations/${provenance.calibration_id}` }, provenance.calibration_name);
  const paths = provenance.paths.flatMap((path, place) => [place ? ", " : "", h("code", {}, path)]);
  return h("p", { class: "hint provenance" }, `${t("calibrations.provenance")} `, link, `${t("profiles.colon")} `, paths);
}

/** Whether its runs are still as it predicts: beside all else, so a failure is no failure of the page. */
async function showDrift() {
  if (!(await may("calibrations:read"))) return;
  const drift = await get(withQuery("/v1/back-tests/drift", { profile: slug }));
  fill(byId("drift"), driftOf(drift, { isShort: true }));
  byId("drift-card").hidden = false;
}

function changesList(before, after) {
  if (!before) return h("p", { class: "hint" }, t("profiles.first_revision"));
  const labels = LABELS.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key])).map((key) => ({
    what: t(`profiles.${key}`),
    before: labelText(before[key]),
    after: labelText(after[key]),
    unit: "",
  }));
  const values = changesOf(before.defaults, after.defaults).map((one) => ({
    what: labelOf(one.path),
    before: valueText(one.before),
    after: valueText(one.after),
    unit: unitOf(one.path),
  }));
  const all = [...labels, ...values];
  if (!all.length) return h("p", { class: "hint" }, t("profiles.nothing_changed"));
  return h(
    "ul",
    { class: "changes" },
    all.map(({ what, unit, ...values }) =>
      h("li", {}, h("span", {}, `${what}${t("profiles.colon")} `), h("s", {}, values.before), " → ", h("strong", {}, values.after), unit && ` ${unit}`),
    ),
  );
}

function labelText(value) {
  if (value === null) return t("profiles.nothing");
  if (typeof value === "string") return value;
  const pairs = Object.entries(value).map(([key, text]) => `${key}: ${text}`);
  return pairs.join("; ") || t("profiles.nothing");
}

function showForm() {
  const isOpen = asked().has("edit") && mayWrite && !profile.archived_at;
  byId("edit-profile").hidden = !isOpen;
  byId("edit").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) content.show(profile);
}

function toggle(is) {
  setAsked({ edit: is ? "yes" : null }, { push: true });
  showForm();
  if (is) byId("edit-profile").querySelector("input").focus();
  else byId("edit").focus();
}

async function changeArchival(method, button, successor) {
  if (method === "POST" && !(await confirmed(t("profiles.archive_question", { name: profile.name }), t("profiles.archive")))) return;
  const change = async () => {
    await ask(method, `${ADDRESS}/archival`, { headers: { "If-Match": etag } });
    await load();
    announce(t(method === "POST" ? "profiles.was_archived" : "profiles.was_taken_back"));
  };
  await attempt(button, change, null, successor);
}

byId("edit").addEventListener("click", () => toggle(byId("edit-profile").hidden));
byId("cancel").addEventListener("click", () => toggle(false));
byId("newest").addEventListener("click", () => choose(profile.revision));
byId("archive").addEventListener("click", (event) => changeArchival("POST", event.target, "take-back"));
byId("take-back").addEventListener("click", (event) => changeArchival("DELETE", event.target, "archive"));
byId("more-revisions").addEventListener("click", (event) =>
  attempt(event.target, async () => {
    await loadRevisions(nextToken);
    showRevisions();
  }),
);
onSubmit(byId("profile-form"), async () => {
  await create(`${ADDRESS}/revisions`, content.read(), { headers: { "If-Match": etag } });
  setAsked({ edit: null, revision: null });
  await load();
  announce(t("profiles.saved", { revision: exact(profile.revision) }));
  byId("main").focus();
});
onMoved(() => profile && show());

try {
  mayWrite = await onlyWith("profiles:write", [], byId("permission"));
  await onlyWith("calibrations:write", [byId("to-calibrate")]);
  await load();
  sayCarried();
  await showDrift();
} catch (problem) {
  showProblem(problem);
}
