// The parts of a calibration's findings as elements: components, outliers, family, source.

import { h } from "./dom.js";
import { count, NOTHING, number, percent } from "./format.js";
import { bytesText } from "./calibration_fields.js";
import { estimate, msText, ratio, said, share, simpleTable } from "./calibration_words.js";
import { named, t } from "./texts.js";

const COMPONENTS = ["persistent", "node", "common", "replica", "transient"];

/** The spread by what it is of, with all ranks and with healthy ones; then what else was estimated. */
export function componentsOf(findings) {
  const heads = ["head_component", "as_observed", "healthy"].map((key) => t(`calibrations.${key}`));
  const rows = COMPONENTS.filter((name) => findings.as_observed[`${name}_cv`] || findings.healthy[`${name}_cv`]).map((name) => [
    h("span", {}, t(`calibrations.component_${name}`), h("div", { class: "hint" }, t(`calibrations.component_${name}_hint`))),
    estimate(findings.as_observed[`${name}_cv`], share),
    estimate(findings.healthy[`${name}_cv`], share),
  ]);
  const { autocorrelation, spikes } = findings;
  const facts = [
    ["autocorrelation", autocorrelation.lag_1 ? estimate(autocorrelation.lag_1, (value) => number(value, { maximumFractionDigits: 3 })) : NOTHING],
    ["num_pairs", count(autocorrelation.num_pairs)],
    ...["load_ms", "communication_ms", "step_mean_ms"].filter((name) => findings[name]).map((name) => [name, estimate(findings[name], msText)]),
    ...(spikes ? [["spikes", [t("calibrations.spikes_found", { count: count(spikes.num_spikes) }), " ", estimate(spikes.probability, share), " · ", estimate(spikes.slowdown, (value) => `× ${ratio(value)}`)]]] : []),
  ];
  return [
    simpleTable(t("calibrations.components_caption", { confidence: percent(findings.confidence, 0) }), heads, rows),
    h("dl", { class: "facts" }, facts.flatMap(([key, value]) => [h("dt", {}, t(`calibrations.${key}`)), h("dd", {}, value)])),
  ];
}

/** Each outlier in a sentence of its own. */
export function outliersOf(outliers) {
  if (!outliers.length) return [t("calibrations.no_outliers")];
  return [
    h(
      "ul",
      { class: "outliers" },
      outliers.map((one) => {
        const where = [one.node === null ? null : t("calibrations.of_node", { node: count(one.node) }), one.stage === null ? null : t("scenario.stage", { number: one.stage })].filter(Boolean);
        const steps = one.kind === "changed" && one.from_step !== null ? ` ${t("calibrations.in_steps", { from: count(one.from_step), to: count(one.to_step) })}` : "";
        return h(
          "li",
          {},
          h("strong", { class: one.kind === "fast" ? "better" : "worse" }, t("calibrations.rank", { rank: count(one.rank) })),
          where.length ? ` (${where.join(", ")})` : "",
          `${t("profiles.colon")} ${named("calibrations.kind_", one.kind)}${steps}, `,
          t("calibrations.speed"),
          " ",
          estimate(one.speed_fraction, (value) => percent(value, 1)),
          " ",
          h("span", { class: "quiet" }, t("calibrations.deviations", { count: number(one.robust_deviations, { maximumFractionDigits: 1 }) })),
        );
      }),
    ),
  ];
}

/** Which family was chosen, and how each one predicts what it was not fitted to. */
export function familyOf(family) {
  const decided = family.is_decided ? "calibrations.family_decided" : "calibrations.family_open";
  const caption = t(family.is_ruled_out ? "calibrations.family_ruled_out" : decided, { family: named("scenario.law_", family.chosen) });
  const heads = [t("calibrations.head_family"), { text: t("calibrations.head_max_to_mean"), num: true }, { text: t("calibrations.head_error"), num: true }];
  if (!family.candidates.length) return h("p", { class: "hint" }, caption);
  return simpleTable(
    caption,
    heads,
    family.candidates.map((one) => [named("scenario.law_", one.family), ratio(one.predicted_max_to_mean_ratio), percent(one.relative_error, 2)]),
  );
}

/** What was read, and what of it was left out. */
export function sourceOf(calibration) {
  const { source } = calibration.findings;
  const facts = [
    ["num_ranks", count(source.num_ranks)],
    ["gpus_per_rank", count(source.num_gpus_per_rank)],
    ["world_size", source.world_size === null ? NOTHING : count(source.world_size)],
    ["num_steps", t("calibrations.steps_from_to", { count: count(source.num_steps), from: count(source.first_step), to: count(source.last_step) })],
    ["missing_cells", count(source.missing_cells)],
    ["steps_have_gaps", t(source.steps_have_gaps ? "profiles.yes" : "profiles.no")],
    ...source.left_out.map((one) => ["left_out", [`${count(one.count)}${t("profiles.colon")} `, said(one.reason)]]),
    ["model_version", calibration.model_version],
    ["source_digest", h("code", {}, calibration.source_digest)],
  ];
  const heads = [t("calibrations.head_file"), t("calibrations.head_format"), { text: t("calibrations.head_size"), num: true }, { text: t("calibrations.head_rows"), num: true }, "SHA-256"];
  return [
    simpleTable(
      t("calibrations.files_read"),
      heads,
      source.files.map((file) => [file.name, named("calibrations.format_", file.format), bytesText(file.num_bytes), count(file.num_rows), h("code", { class: "digest" }, file.sha256)]),
    ),
    h("dl", { class: "facts" }, facts.flatMap(([key, value]) => [h("dt", {}, t(`calibrations.${key}`)), h("dd", {}, value)])),
  ];
}
