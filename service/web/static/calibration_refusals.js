// Why timings were refused: each reason with its file, and the line where it is known.

import { h } from "./dom.js";
import { said, simpleTable } from "./calibration_words.js";
import { named, t } from "./texts.js";

/** The reasons of a `refused-timings` problem. */
export function refusalsOf(problem) {
  const rows = problem.errors.map((one) => [fileOf(one.pointer ?? ""), named("calibrations.refusal_", one.code), h("span", { class: "worse" }, said(one.detail))]);
  const heads = ["head_file", "head_reason", "head_said"].map((key) => t(`calibrations.${key}`));
  return h(
    "div",
    { class: "refusals", role: "alert" },
    h("p", { class: "fault" }, t("calibrations.refused")),
    simpleTable(t("calibrations.refusals"), heads, rows),
  );
}

/** `/file/<name>`, with `/<line>` where it is told, or nothing: it is about all of them. */
function fileOf(pointer) {
  const [, first, name, line] = pointer.split("/");
  if (first !== "file" || !name) return first && first !== "file" ? h("code", {}, first) : t("calibrations.all_of_them");
  const shown = h("code", {}, name.replaceAll("~1", "/").replaceAll("~0", "~"));
  return line ? h("span", {}, shown, ` ${t("calibrations.line", { line })}`) : shown;
}
