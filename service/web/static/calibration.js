// One calibration: what the timings say, in the order in which a reader needs it, and what to do with it.

import { ask, get } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { momentElement, percent } from "./format.js";
import { acceptanceForm } from "./calibration_acceptance.js";
import { gapChart, heldOutChart, rankChart } from "./calibration_charts.js";
import { withOverrides } from "./calibration_coarse.js";
import { componentsOf, familyOf, outliersOf, sourceOf } from "./calibration_findings.js";
import { headlineCards } from "./calibration_headline.js";
import { overlapAudit } from "./calibration_overlap.js";
import { proposalRows } from "./calibration_proposal.js";
import { remarks, unknownTable } from "./calibration_remarks.js";
import { estimate, ratio } from "./calibration_words.js";
import { leaveSaying } from "./carried_word.js";
import { showProblem } from "./problems.js";
import { simulatorLink } from "./scenario_link.js";
import { may } from "./session.js";
import { attempt, confirmed, onlyWith } from "./submit.js";
import { t } from "./texts.js";

const id = decodeURIComponent(location.pathname.split("/").at(-1));
const ADDRESS = `/v1/calibrations/${encodeURIComponent(id)}`;

let calibration = null;
let etag = null;

async function load() {
  const answer = await ask("GET", ADDRESS);
  calibration = answer.data;
  etag = answer.headers.get("etag");
  byId("waiting").hidden = true;
  byId("content").hidden = false;
  show();
}

function show() {
  const { findings, name, state } = calibration;
  document.title = `${name} · Trainard`;
  byId("calibration-name").textContent = name;
  fill(byId("state"), h("span", { class: state === "accepted" ? "tag good" : "tag" }, t(`calibrations.state_${state}`)));
  fill(byId("facts"), factsLine());
  byId("actions").hidden = false;
  fill(byId("remarks"), remarks(findings.warnings));
  fill(byId("headline"), headlineCards(findings));
  fill(byId("outliers"), outliersOf(findings.outliers));
  rankChart(byId("ranks"), findings);
  const { gaps } = findings;
  fill(byId("gaps-sentence"), t("calibrations.gaps_sentence"), " ", estimate(gaps.slowest_to_median_mean_ratio, ratio), ` · p50 ${ratio(gaps.slowest_to_median_p50_ratio)} · p95 ${ratio(gaps.slowest_to_median_p95_ratio)}`);
  gapChart(byId("gaps"), findings);
  fill(byId("components"), componentsOf(findings));
  showHeldOut(findings.held_out);
  fill(byId("family"), familyOf(findings.family));
  fill(byId("overlap"), overlapAudit(findings.overlap));
  showUnknown(findings.proposal.unknown);
  fill(byId("source"), sourceOf(calibration));
}

function factsLine() {
  const parts = [momentElement(calibration.created_at), ` · ${calibration.created_by} · ${calibration.team}`];
  const as = calibration.accepted_as;
  if (calibration.profile) parts.push(` · ${t("calibrations.timings_of")} `, h("a", { href: `/profiles/${calibration.profile.split("@")[0]}` }, calibration.profile));
  if (as) parts.push(` · ${t("calibrations.accepted_as")} `, h("a", { href: `/profiles/${as.slug}?revision=${as.revision}` }, `${as.slug}@${as.revision}`));
  return parts;
}

function showHeldOut(found) {
  const place = byId("held-out");
  if (!found) return fill(place, h("p", { class: "quiet" }, t("calibrations.no_held_out")));
  const sentence = t("calibrations.held_out_sentence", {
    fitted: found.num_fitted_steps,
    held: found.num_held_out_steps,
    error: percent(Math.abs(found.relative_error), 1),
  });
  const chart = h("div", {});
  fill(place, h("p", {}, sentence), chart);
  return heldOutChart(chart, found);
}

function showUnknown(unknown) {
  fill(byId("unknown"), unknown.length ? unknownTable(unknown) : h("p", { class: "quiet" }, t("calibrations.nothing_unknown")));
}

/** The scenario of the profile that the timings are of, with the proposal put in. */
async function showSimulator() {
  const { proposal } = calibration.findings;
  let base = {};
  if (calibration.profile && (await may("profiles:read"))) {
    const [slug, revision] = calibration.profile.split("@");
    base = (await get(`/v1/cluster-profiles/${slug}/revisions/${revision}`)).defaults;
  }
  byId("to-simulator").href = simulatorLink(withOverrides(base, proposal.overrides));
}

async function showProposal() {
  const { proposal } = calibration.findings;
  const mayAccept = (await may("calibrations:write")) && (await may("profiles:write"));
  let acceptance = null;
  if (!mayAccept || !proposal.values.length) {
    fill(byId("proposal"), proposal.values.length ? proposalRows(proposal) : h("p", { class: "quiet" }, t("calibrations.nothing_proposed")));
    return;
  }
  const table = proposalRows(proposal, { isChoice: true, changed: () => acceptance?.update() });
  fill(byId("proposal"), table.element);
  byId("to-accept").hidden = false;
  acceptance = await acceptanceForm(calibration, table.taken);
}

byId("delete").addEventListener("click", async (event) => {
  if (!(await confirmed(t("calibrations.delete_question", { name: calibration.name }), t("common.delete")))) return;
  await attempt(event.target, async () => {
    await ask("DELETE", ADDRESS, { headers: { "If-Match": etag } });
    leaveSaying("/calibrations", t("common.was_deleted", { name: calibration.name }));
  });
});

try {
  const mayWrite = await onlyWith("calibrations:write", [], byId("permission"));
  await load();
  byId("delete").hidden = !mayWrite || calibration.state === "accepted";
  await Promise.all([showSimulator(), showProposal()]);
} catch (problem) {
  byId("waiting").hidden = true;
  showProblem(problem);
}
