// A batch out of JSON: checked without making it, with every fault at once, then made.

import { ask, create } from "./api.js";
import { announce, byId, fill, h } from "./dom.js";
import { count, number } from "./format.js";
import { busy } from "./form.js";
import { clearProblem, showProblem } from "./problems.js";
import { counted, t } from "./texts.js";

// Of the founding page: one GPU of 1 024 has 70 % of the speed
const EXAMPLE = {
  name: "one slow GPU",
  items: [
    {
      custom_id: "one-slow",
      scenario: {
        num_gpus: 1024,
        load_ms: 30,
        compute_ms: 300,
        communication: { kind: "fixed", allreduce_ms: 80 },
        slow_groups: [{ count: 1, speed_fraction: 0.7 }],
      },
      axes: [{ path: "num_gpus", powers_of_two: { start: 8, stop: 131072 } }],
    },
  ],
};

export function batchForm() {
  const form = byId("batch-form");
  const text = byId("batch-json");
  const plan = byId("plan");
  const check = byId("batch-check");
  const send = form.querySelector("[type=submit]");

  function changed() {
    plan.hidden = true;
    clearProblem(form);
  }

  function put(content) {
    text.value = content;
    changed();
  }

  /** The document, or null after telling why there is none. */
  function read() {
    try {
      return JSON.parse(text.value);
    } catch (fault) {
      tell({ title: t("common.no_json", { why: fault.message }), errors: [] });
      return null;
    }
  }

  function tell(problem) {
    plan.hidden = true;
    clearProblem(form);
    // Each fault by its pointer, in the list above the text: the text is one field for all
    const { title, detail, traceId } = problem;
    showProblem({ title, detail, traceId, errors: [] }, { form });
    const list = form.querySelector(".faults");
    if (problem.errors?.length) {
      const items = problem.errors.map((one) => h("li", {}, h("code", {}, one.pointer || "/"), ` ${one.detail}`));
      list.firstElementChild.after(h("ul", {}, items));
    }
    text.setAttribute("aria-invalid", "true");
    text.focus();
  }

  async function attempt(button, work) {
    const body = read();
    if (body === null) return;
    clearProblem(form);
    try {
      await busy(button, () => work(body));
    } catch (problem) {
      if (problem.name === "AbortError") return;
      tell(problem);
    }
  }

  text.addEventListener("input", changed);
  byId("batch-example").addEventListener("click", () => put(JSON.stringify(EXAMPLE, null, 2)));
  byId("batch-file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) put(await file.text());
  });
  check.addEventListener("click", () =>
    attempt(check, async (body) => {
      const answer = await ask("POST", "/v1/scenario-batches?validate_only=true", { body });
      showPlan(plan, answer.data);
    }),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(send, async (body) => {
      const { data } = await create("/v1/scenario-batches", body);
      location.assign(`/batches/${data.id}`);
    });
  });
}

function showPlan(place, plan) {
  const points = counted("results.plan_points", plan.points_total, count(plan.points_total));
  const seconds = t("results.plan_seconds", {
    seconds: number(plan.estimated_s, { maximumSignificantDigits: 2 }),
  });
  const notes = [
    plan.points_failing ? t("results.plan_failing", { count: count(plan.points_failing) }) : null,
    plan.reused_from ? t("results.plan_reused") : null,
    ...plan.warnings.map((warning) => warning.detail ?? String(warning)),
  ].filter(Boolean);
  const heads = ["item", "profile", "points", "points_failed"].map((name) =>
    h("th", { scope: "col", class: name.startsWith("points") ? "num" : null }, t(`results.${name}`)),
  );
  const rows = plan.items.map((item) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, item.custom_id),
      h("td", {}, item.profile ?? t("results.inline")),
      h("td", { class: "num" }, count(item.points)),
      h("td", { class: "num" }, count(item.points_failing)),
    ),
  );
  fill(
    place,
    h("h3", {}, t("results.plan")),
    h("p", {}, `${points} · ${seconds}`),
    notes.length ? h("ul", { class: "advice" }, notes.map((note) => h("li", {}, note))) : null,
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": t("results.plan") },
      h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)),
    ),
  );
  place.hidden = false;
  announce(t("common.pair", { name: t("results.plan"), text: points }));
}
