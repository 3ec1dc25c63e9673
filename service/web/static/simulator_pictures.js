// The pictures: each is drawn once and then updated in its place. Until then a part that is of an
// older scenario says so.

import { byId, fill, h } from "./dom.js";
import { count, ms, number, percent } from "./format.js";
import { wholeHours } from "./simulator_figures.js";
import { t } from "./texts.js";

/**
 * A picture that is made with its first data and then updated, one after the other; of data that come
 * meanwhile only the newest are drawn. `load` brings the drawing, so that figures do not wait for it.
 */
function picture(place, load) {
  let chart = null;
  let waiting = null;
  let drawing = null;

  async function draw() {
    try {
      while (waiting) {
        const { data } = waiting;
        waiting = null;
        if (chart) await chart.update(data);
        else chart = (await load())(place, data);
      }
    } finally {
      drawing = null;
    }
  }
  return {
    show(data) {
      waiting = { data };
      drawing ??= draw();
      return drawing;
    },
  };
}

/** All pictures: `mean(answer)`, `full(answer)`, `curve(answer)`, `timeline(answer | null)`, `stale(names)`. */
export function pictures(store) {
  const gpus = picture(byId("gpu-timeline"), () => import("./gpu_timeline.js").then((module) => module.gpuTimeline));
  const causes = picture(byId("waterfall"), () => import("./waterfall.js").then((module) => module.waterfall));
  const growth = picture(byId("loss-curve"), () => import("./loss_curve.js").then((module) => module.lossCurve));
  const pipeline = picture(byId("pipeline-timeline"), () => import("./pipeline_timeline.js").then((module) => module.pipelineTimeline));
  rowChoice(store);

  const charts = { causes: byId("waterfall"), growth: byId("loss-curve"), pipeline: byId("pipeline-timeline") };

  /** A card is of now when the answer to the last change is drawn in it, and not that to one before. */
  function current(name, turn) {
    if (turn === store.turn) byId(name).setAttribute("aria-busy", "false");
  }
  /** A chart needs its room before it is drawn. */
  function accepted(name) {
    byId(name).querySelector(".part-refused")?.remove();
    charts[name].hidden = false;
  }
  return {
    async mean({ result, ranks, scenario }, turn) {
      if (!ranks) {
        byId("gpus").hidden = true;
        return;
      }
      byId("gpus").hidden = false;
      byId("gpu-gap").textContent = t("simulator.gap", {
        gap: ms(ranks.slowest_to_median_gap_ms),
        median: ms(ranks.median_compute_ms),
      });
      await gpus.show({ result, ranks, scenario });
      current("gpus", turn);
    },
    async full({ result }, turn) {
      accepted("causes");
      byId("reducible").hidden = false;
      await causes.show(result);
      reducible(result);
      current("causes", turn);
    },
    async curve(answer, turn) {
      accepted("growth");
      await growth.show({ ...answer, own: store.valueAt("num_gpus"), hasFailures: Boolean(store.scenario.failures) });
      current("growth", turn);
    },
    async timeline(answer, turn) {
      byId("pipeline").hidden = answer === null;
      accepted("pipeline");
      if (answer === null) {
        current("pipeline", turn);
        return;
      }
      byId("pipeline-sentence").textContent = t("simulator.pipeline_sentence", {
        busy: number(answer.busy_stages_mean, { maximumFractionDigits: 2 }),
        stages: count(answer.num_stages),
        bubble: percent(answer.bubble_fraction, 1),
        makespan: ms(answer.makespan_ms),
      });
      await pipeline.show(answer);
      current("pipeline", turn);
    },
    /** Said in the part's own card: figures and other pictures stand. */
    refused(part, problem) {
      const name = { full: "causes", curve: "growth", timeline: "pipeline" }[part];
      accepted(name);
      charts[name].hidden = true;
      if (name === "causes") byId("reducible").hidden = true;
      if (name === "pipeline") byId("pipeline-sentence").textContent = "";
      charts[name].before(partNote(problem));
      byId(name).hidden = false;
      byId(name).setAttribute("aria-busy", "false");
    },
    stale() {
      for (const name of ["gpus", "causes", "growth", "pipeline"]) byId(name).setAttribute("aria-busy", "true");
    },
  };
}

/** That one part is refused, and why: a sentence of the API, which speaks English. */
export function partNote(problem) {
  const why = problem.detail || problem.title || String(problem);
  return h("p", { class: "advice part-refused", role: "status" }, t("simulator.part_refused"), " ", h("span", { lang: "en" }, why));
}

function reducible(result) {
  const part = (name) => [
    h("dt", {}, t(`simulator.${name}`)),
    h("dd", {}, h("strong", { "data-figure": name }, wholeHours(result[`gpu_hours_${name}`])), ` ${t("common.gpu_hours")}`),
  ];
  fill(
    byId("reducible"),
    ["reducible_by_eviction", "reducible_by_waiting", "irreducible"].map((name) => h("div", {}, part(name))),
  );
}

function rowChoice(store) {
  const select = h(
    "select",
    {
      id: "rows",
      onchange: () => {
        store.rows = Number(select.value);
        store.touched();
        store.settle();
      },
    },
    [16, 64, 256, 1000].map((rows) => h("option", { value: String(rows) }, count(rows))),
  );
  fill(byId("gpu-rows"), h("label", { class: "inline", for: "rows" }, t("simulator.rows"), select));
  store.onChange(() => {
    select.value = String(store.rows);
  });
}
