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

  function current(...names) {
    for (const name of names) byId(name).setAttribute("aria-busy", "false");
  }
  return {
    async mean({ result, ranks, scenario }) {
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
      current("gpus");
    },
    async full({ result }) {
      await causes.show(result);
      reducible(result);
      current("causes");
    },
    async curve(answer) {
      await growth.show({ ...answer, own: store.valueAt("num_gpus") });
      current("growth");
    },
    async timeline(answer) {
      byId("pipeline").hidden = answer === null;
      if (answer === null) return;
      byId("pipeline-sentence").textContent = t("simulator.pipeline_sentence", {
        busy: number(answer.busy_stages_mean, { maximumFractionDigits: 2 }),
        stages: count(answer.num_stages),
        bubble: percent(answer.bubble_fraction, 1),
        makespan: ms(answer.makespan_ms),
      });
      await pipeline.show(answer);
      current("pipeline");
    },
    stale() {
      for (const name of ["gpus", "causes", "growth", "pipeline"]) byId(name).setAttribute("aria-busy", "true");
    },
  };
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
