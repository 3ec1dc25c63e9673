// Warnings of the API, and what timings do not tell.

import { h } from "./dom.js";
import { said, simpleTable } from "./calibration_words.js";
import { pathLink } from "./input_links.js";
import { named, t } from "./texts.js";

/** Warnings, each with its name; null where there is none. */
export function remarks(warnings) {
  if (!warnings.length) return null;
  const lines = warnings.map((one) => h("li", {}, h("strong", {}, `${named("calibrations.warning_", one.code)}${t("profiles.colon")} `), said(one.detail)));
  return h("div", { class: "advice" }, h("p", {}, h("strong", {}, t("calibrations.warnings"))), h("ul", {}, lines));
}

/** What is unknown, why, and what to do; each path leads to where its number is found. */
export function unknownTable(unknown) {
  const heads = ["head_path", "head_why", "head_do"].map((key) => t(`calibrations.${key}`));
  return simpleTable(
    t("calibrations.unknown_caption"),
    heads,
    unknown.map((one) => [pathLink(one.path), said(one.reason), said(one.what_to_do)]),
  );
}
