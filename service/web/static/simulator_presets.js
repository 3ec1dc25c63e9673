// "Try this": scenarios at one click, each with the sentence that it proves. The figures of the
// sentence are asked of the API when the button is pressed; none is written here.

import { ask } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { count, ms, number, percent } from "./format.js";
import { showProblem } from "./problems.js";
import { START } from "./scenario_state.js";
import { BLANK } from "./scenario_store.js";
import { wholeHours } from "./simulator_figures.js";
import { t } from "./texts.js";

const varied = (source, cv) => ({ slow_groups: [], variability: { [source]: { kind: "normal", cv } } });
const local = { synchronization: { kind: "local_steps", steps: 10 } };
const buckets = { overlap: { kind: "buckets", num_buckets: 25, contention_fraction: 0 } };
const piped = (microbatches) => ({
  num_gpus: 8,
  slow_groups: [],
  load_ms: 0,
  communication: { kind: "fixed", allreduce_ms: 0 },
  pipeline: { schedule: "1f1b", stages: 8, microbatches },
});
const failing = {
  num_gpus: 16_384,
  slow_groups: [],
  failures: {
    failures_per_1000_node_days: 6.5,
    detection_s: 60,
    restart_s: 240,
    checkpoint_write_s: 30,
    checkpoint_interval_s: "optimal",
  },
};

/** `shown` is the scenario that is put into the page; `others` are computed beside it. */
const PRESETS = [
  {
    name: "one_slow",
    shown: {},
    others: { large: { num_gpus: 1024 } },
    say: ({ shown, large }) => ({
      efficiency: percent(shown.result.efficiency_fraction),
      gpus: count(shown.scenario.num_gpus),
      lost: wholeHours(shown.result.gpu_hours_lost_per_day),
      large_efficiency: percent(large.result.efficiency_fraction),
      large_gpus: count(large.scenario.num_gpus),
      large_lost: wholeHours(large.result.gpu_hours_lost_per_day),
    }),
  },
  {
    name: "jitter",
    shown: { ...varied("persistent", 0.05), num_gpus: 1024 },
    others: { small: { ...varied("persistent", 0.05), num_gpus: 8 } },
    say: ({ shown, small }) => ({
      efficiency: percent(shown.result.efficiency_fraction),
      gpus: count(shown.scenario.num_gpus),
      small_efficiency: percent(small.result.efficiency_fraction),
      small_gpus: count(small.scenario.num_gpus),
      cv: percent(shown.scenario.variability.persistent.cv, 0),
    }),
  },
  {
    name: "network",
    shown: { communication: { kind: "fixed", allreduce_ms: 200 } },
    others: { before: {} },
    say: ({ shown, before }) => ({
      before_ms: ms(before.result.communication_ms),
      after_ms: ms(shown.result.communication_ms),
      before_efficiency: percent(before.result.efficiency_fraction),
      efficiency: percent(shown.result.efficiency_fraction),
      before_useful: percent(before.result.useful_compute_fraction),
      useful: percent(shown.result.useful_compute_fraction),
    }),
  },
  {
    name: "dashboard",
    shown: { load_ms: 0, communication: { kind: "fixed", allreduce_ms: 110 } },
    others: {},
    say: ({ shown }) => ({
      displayed: percent(shown.result.displayed_utilization_fraction, 0),
      useful: percent(shown.result.useful_compute_fraction),
      lost: wholeHours(shown.result.gpu_hours_lost_per_day),
    }),
  },
  {
    name: "local_steps",
    shown: { ...varied("persistent", 0.05), ...local },
    others: {
      lasting: varied("persistent", 0.05),
      changing: varied("transient", 0.05),
      changing_local: { ...varied("transient", 0.05), ...local },
    },
    say: ({ shown, lasting, changing, changing_local: rarely }) => ({
      steps: count(shown.scenario.synchronization.steps),
      changing: ms(changing.result.slowest_compute_mean_ms),
      changing_local: ms(rarely.result.slowest_compute_mean_ms),
      lasting: ms(lasting.result.slowest_compute_mean_ms),
      lasting_local: ms(shown.result.slowest_compute_mean_ms),
    }),
  },
  {
    name: "overlap",
    shown: buckets,
    others: { before: {} },
    say: ({ shown, before }) => ({
      hidden: percent(shown.result.hidden_communication_fraction, 0),
      before_step: ms(before.result.step_mean_ms),
      step: ms(shown.result.step_mean_ms),
      slowest: ms(shown.result.slowest_compute_mean_ms),
      compute: ms(shown.scenario.compute_ms),
    }),
  },
  {
    name: "pipeline",
    shown: piped(4),
    others: { three: piped(3), many: piped(32) },
    say: ({ shown, three, many }) => ({
      stages: count(shown.scenario.pipeline.stages),
      few: count(three.scenario.pipeline.microbatches),
      few_busy: number(three.result.busy_gpus_mean, { minimumFractionDigits: 2, maximumFractionDigits: 2 }),
      more: count(shown.scenario.pipeline.microbatches),
      more_busy: number(shown.result.busy_gpus_mean, { minimumFractionDigits: 2, maximumFractionDigits: 2 }),
      many: count(many.scenario.pipeline.microbatches),
      many_busy: number(many.result.busy_gpus_mean, { minimumFractionDigits: 2, maximumFractionDigits: 2 }),
    }),
  },
  {
    name: "failures",
    shown: failing,
    others: {},
    say: ({ shown }) => ({
      gpus: count(shown.scenario.num_gpus),
      per_day: number(shown.result.failures_per_day, { maximumFractionDigits: 1 }),
      ratio: percent(shown.result.time_ratio_fraction, 1),
      interval: number(shown.result.checkpoint_interval_s, { maximumFractionDigits: 0 }),
      lost: wholeHours(shown.result.gpu_hours_lost_per_day),
    }),
  },
];

async function evaluated(changes) {
  const body = { scenario: { ...START, ...changes }, ranks_limit: 0, leave_out: ["spread", "causes", "quantiles"] };
  return (await ask("POST", "/v1/evaluations", { body })).data;
}

/** The buttons, and the place of the sentence. */
export function presets(store) {
  const proof = byId("proof");
  const buttons = PRESETS.map((preset) =>
    h(
      "button",
      { type: "button", class: "try", "aria-pressed": "false", "data-try": preset.name, onclick: () => show(preset) },
      h("strong", {}, t(`simulator.try_${preset.name}`)),
      h("span", {}, t(`simulator.try_${preset.name}_hint`)),
    ),
  );
  fill(byId("tries"), ...buttons);

  function press(name) {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.try === name));
  }
  store.onChange(() => {
    press(null);
    proof.hidden = true;
  });

  async function show(preset) {
    store.base = BLANK;
    store.replace({ ...START, ...preset.shown });
    store.settle();
    press(preset.name);
    fill(proof, h("p", {}, t("common.loading")));
    proof.hidden = false;
    const turn = store.turn;
    try {
      const asked = { shown: preset.shown, ...preset.others };
      const answers = await Promise.all(Object.entries(asked).map(async ([name, changes]) => [name, await evaluated(changes)]));
      if (turn !== store.turn) return;
      fill(proof, h("p", { "data-proof": preset.name }, t(`simulator.proof_${preset.name}`, preset.say(Object.fromEntries(answers)))));
    } catch (problem) {
      if (turn === store.turn) proof.hidden = true;
      showProblem(problem);
    }
  }
}
