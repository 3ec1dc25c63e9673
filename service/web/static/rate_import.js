// Rates from CSV: checked or recorded as a whole, with every fault at its line.

import { create } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { count, day, exact, money } from "./format.js";
import { onSubmit } from "./submit.js";
import { counted, t } from "./texts.js";

const IMPORTS = "/v1/gpu-hour-rates/imports";

export function importForm(form, done) {
  const text = byId("csv");
  const file = byId("csv-file");
  const outcome = byId("import-outcome");
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (chosen) text.value = await chosen.text();
    fill(outcome);
  });
  text.addEventListener("input", () => fill(outcome));
  onSubmit(form, async (button) => {
    const isCheck = button?.value === "check";
    fill(outcome);
    try {
      const body = new Blob([text.value], { type: "text/csv" });
      const { data } = await create(isCheck ? `${IMPORTS}?validate_only=true` : IMPORTS, body);
      if (isCheck) fill(outcome, checked(data));
      else {
        text.value = "";
        file.value = "";
        await done(count(data.num_rates));
      }
    } catch (problem) {
      if (!problem.errors?.some((one) => one.pointer.startsWith("/rows/"))) throw problem;
      fill(outcome, faults(problem, text.value));
      outcome.querySelector(".scroll").focus();
    }
  });
}

function tableOf(caption, heads, rows) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heads.map((key) => h("th", { scope: "col" }, t(`rates.${key}`))))),
      h("tbody", {}, rows),
    ),
  );
}

function checked(found) {
  const caption = counted("rates.would_import", found.num_rates, count(found.num_rates));
  const rows = found.items.slice(0, 100).map((one) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, exact(one.line)),
      [one.gpu_type, one.cost_center ?? t("rates.any"), money(one.price_per_gpu_hour), day(one.valid_from), one.valid_until ? day(one.valid_until) : t("rates.open_end")].map((cell) => h("td", {}, cell)),
    ),
  );
  return tableOf(caption, ["line", "gpu_type", "cost_center", "price", "valid_from", "valid_until"], rows);
}

/** A fault has the pointer `/rows/<line>/<column>`; the header is line 1. */
function faults(problem, text) {
  const lines = text.split(/\r?\n/);
  const rows = problem.errors.map((one) => {
    const [, , line, column = ""] = one.pointer.split("/");
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, exact(Number(line))),
      h("td", {}, h("code", {}, column)),
      h("td", { class: "worse" }, one.detail),
      h("td", {}, h("code", { class: "quiet" }, lines[Number(line) - 1] ?? "")),
    );
  });
  return [
    h("p", { class: "fault", role: "alert" }, [problem.title, problem.detail].filter(Boolean).join(": ")),
    tableOf(t("rates.faults"), ["line", "column", "fault", "text"], rows),
  ];
}
