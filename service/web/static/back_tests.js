// Back-tests: runs held against what their profile predicts, a new one, and whether a profile's runs drift.

import { asked, onMoved, setAsked } from "./address.js";
import { get, withQuery } from "./api.js";
import { announce, byId, fill, h, settled } from "./dom.js";
import { backTestForm } from "./back_test_form.js";
import { driftOf, testColumns } from "./back_test_parts.js";
import { backTestResult } from "./back_test_result.js";
import { showProblem } from "./problems.js";
import { may } from "./session.js";
import { onlyWith } from "./submit.js";
import { table } from "./table.js";
import { t } from "./texts.js";

const TESTS = "/v1/back-tests";
const VERDICTS = ["agrees", "parted", "cannot_tell"];
const filters = { profile: byId("filter-profile"), verdict: byId("filter-verdict"), run: byId("filter-run") };
let mayWrite = false;

fill(filters.verdict, h("option", { value: "" }, t("calibrations.any_verdict")), VERDICTS.map((one) => h("option", { value: one }, t(`calibrations.test_${one}`))));

function readFilters() {
  for (const [name, input] of Object.entries(filters)) input.value = asked().get(name) ?? "";
}

function chosen() {
  return Object.fromEntries(Object.entries(filters).map(([name, input]) => [name, input.value.trim()]));
}

function filter() {
  setAsked(chosen());
  list.filter();
  showDrift();
}

/** Of the profile that is filtered by, where there is one of that name. */
async function showDrift() {
  const profile = filters.profile.value.trim();
  const card = byId("drift-card");
  const isKnown = [...byId("profiles").options].some((option) => option.value === profile);
  if (!profile || !isKnown) {
    card.hidden = true;
    return;
  }
  try {
    const drift = await get(withQuery(`${TESTS}/drift`, { profile }));
    if (profile !== filters.profile.value.trim()) return;
    fill(byId("drift"), driftOf(drift));
    card.hidden = false;
  } catch (problem) {
    card.hidden = true;
    showProblem(problem);
  }
}

/** The test that the address names. */
async function showTest(isFocused = false) {
  const place = byId("test");
  const id = asked().get("test");
  place.hidden = !id;
  if (!id) return;
  try {
    fill(place, backTestResult(await get(`${TESTS}/${encodeURIComponent(id)}`)));
    if (isFocused) place.firstElementChild.focus();
  } catch (problem) {
    place.hidden = true;
    showProblem(problem);
  }
}

function showPart(isFocused = false) {
  const is = asked().has("new") && mayWrite;
  byId("part-new").hidden = !is;
  byId("open-new").setAttribute("aria-expanded", String(is));
  if (is && isFocused) byId("part-new").querySelector("input").focus();
}

function toggle(is) {
  setAsked({ new: is ? "yes" : null }, { push: true });
  showPart(true);
  if (!is) byId("open-new").focus();
}

readFilters();
const list = table(byId("tests"), {
  columns: testColumns,
  caption: t("calibrations.tests_caption"),
  empty: t("calibrations.no_tests"),
  address: "",
  filters: chosen,
  load: ({ pageToken, filters: wanted, pageSize, signal }) => get(withQuery(TESTS, { ...wanted, page_size: pageSize, page_token: pageToken }), { signal }),
});
filters.verdict.addEventListener("change", filter);
for (const input of [filters.profile, filters.run]) input.addEventListener("input", settled(filter, 300));
document.querySelector("form.filters").addEventListener("submit", (event) => event.preventDefault());

const form = backTestForm(async (made) => {
  setAsked({ new: null, test: made.id }, { push: true });
  showPart();
  announce(t("calibrations.was_tested", { name: made.run_name }));
  await showTest(true);
  list.reload();
  showDrift();
});
if (asked().get("profile")) form.setProfile(asked().get("profile"));
byId("open-new").addEventListener("click", () => toggle(byId("part-new").hidden));
document.querySelector("[data-close]").addEventListener("click", () => toggle(false));
onMoved(() => {
  readFilters();
  showPart();
  showTest();
  showDrift();
});
mayWrite = await onlyWith("calibrations:write", [byId("open-new")], byId("permission"));
showPart();
showTest();
if (await may("profiles:read")) {
  const { items } = await get("/v1/cluster-profiles?page_size=200");
  byId("profiles").replaceChildren(...items.map((one) => h("option", { value: one.slug }, one.name)));
  showDrift();
}
