// Back-tests in words: verdicts, the list's columns, and whether runs drift from their profile.

import { withQuery } from "./api.js";
import { h } from "./dom.js";
import { count, day, momentElement, ms, number, percent } from "./format.js";
import { said, simpleTable } from "./calibration_words.js";
import { named, t } from "./texts.js";

const TONES = { agrees: "good", parted: "bad", cannot_tell: "warn" };
const MOST_RUNS = 20;
const FEW_RUNS = 5;

export function testVerdict(verdict) {
  return h("span", { class: `tag ${TONES[verdict]}` }, t(`calibrations.test_${verdict}`));
}

/** Observed over predicted as how far off it is. */
export function offBy(ratio) {
  return number(ratio - 1, { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1, signDisplay: "exceptZero" });
}

export const testColumns = [
  { key: "run", label: t("calibrations.run"), head: true, cell: (row) => h("a", { href: withQuery("/back-tests", { profile: row.profile.split("@")[0], test: row.id }) }, row.run_name) },
  { key: "profile", label: t("calibrations.profile"), cell: (row) => h("a", { href: `/profiles/${row.profile.split("@")[0]}` }, row.profile) },
  { key: "when", label: t("calibrations.observed_at"), cell: (row) => momentElement(row.observed_at) },
  { key: "gpus", label: t("profiles.field_num_gpus"), num: true, cell: (row) => count(row.num_gpus) },
  { key: "steps", label: t("calibrations.num_steps"), num: true, cell: (row) => count(row.num_steps) },
  { key: "observed", label: t("calibrations.head_observed_ms"), num: true, cell: (row) => ms(row.observed_step_mean_ms) },
  { key: "predicted", label: t("calibrations.head_predicted_ms"), num: true, cell: (row) => ms(row.predicted_step_mean_ms) },
  { key: "off", label: t("calibrations.head_off"), num: true, cell: (row) => offBy(row.ratio) },
  { key: "verdict", label: t("calibrations.verdict"), cell: (row) => testVerdict(row.verdict) },
  { key: "explained", label: t("calibrations.head_explained"), cell: (row) => (row.explained_by ? named("calibrations.part_", row.explained_by) : "–") },
];

/** The state of `/v1/back-tests/drift`: a warning where runs have parted, and the last of them; fewer where `isShort`. */
export function driftOf(drift, { isShort = false } = {}) {
  const isWarning = drift.state === "warning";
  const state = h("p", { class: isWarning ? "advice" : "" }, [
    h("strong", {}, t(isWarning ? `calibrations.drift_${drift.direction}` : `calibrations.drift_${drift.state}`)),
    drift.since ? ` ${t("calibrations.drift_since", { run: drift.since.run_name })} ` : "",
    drift.since ? momentElement(drift.since.observed_at) : "",
    drift.num_runs ? h("span", { class: "hint" }, " ", said(drift.detail)) : "",
  ]);
  const todo = isWarning && drift.what_to_do ? h("p", {}, h("strong", {}, `${t("calibrations.head_do")}${t("profiles.colon")} `), said(drift.what_to_do)) : null;
  const runs = drift.runs.slice(isShort ? -FEW_RUNS : -MOST_RUNS).reverse();
  if (!runs.length) return [state];
  const columns = [
    [t("calibrations.run"), (run) => h("a", { href: withQuery("/back-tests", { test: run.id }) }, run.run_name)],
    [t("calibrations.observed_at"), (run) => (isShort ? day(run.observed_at.slice(0, 10)) : momentElement(run.observed_at))],
    ...(isShort ? [] : [[{ text: t("profiles.revision"), num: true }, (run) => count(run.revision)]]),
    [{ text: t("calibrations.head_off"), num: true }, (run) => offBy(run.ratio)],
    ...(isShort ? [] : [[{ text: t("calibrations.head_departure"), num: true }, (run) => (run.departure === null ? "–" : percent(run.departure, 0))]]),
    [t("calibrations.verdict"), (run) => testVerdict(run.verdict)],
  ];
  const heads = columns.map(([head]) => head);
  const rows = runs.map((run) => columns.map(([, cell]) => cell(run)));
  return [state, todo, simpleTable(t("calibrations.drift_caption"), heads, rows)];
}
