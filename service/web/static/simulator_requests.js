// When what is asked: the mean at once, all the rest when the scenario rests.
//
// One request for the mean at a time. While it is under way only the newest scenario is remembered:
// if every tick of a slider ended the one before, nothing would be shown until the slider rests. A
// request that takes long is ended, because its picture would be of long ago.

import { ask } from "./api.js";
import { isOutage } from "./outage.js";
import { copied } from "./scenario_state.js";
import { away } from "./simulator_away.js";
import { priceFields } from "./simulator_price.js";

const QUICK = ["spread", "causes", "quantiles"];
const REST_MS = 250;
// An answer that took long is asked for later: who only pauses does not make the service compute it.
const LONGEST_REST_MS = 1_500;
const LONG_MS = 400;

/** The body of an evaluation of what the store holds now. */
export function evaluationBody(store) {
  return { scenario: copied(store.scenario), ranks_limit: store.rows, ...priceFields(store.price) };
}

// Where a point takes long, of every second power of two: a curve has three seconds for all of them.
const FEW_SIZES = [8, 32, 128, 512, 2048, 8192, 32_768, 131_072];
const SIMULATED = ["monte_carlo", "recursion"];
const FEW_DRAWS = 1_000;

/** What is asked of the curve; `method` is that of the scenario's own mean step. */
export function curveParts(scenario, method) {
  const { persistent, node, episodes, spikes } = scenario.variability ?? {};
  const isDear = SIMULATED.includes(method) || Boolean(node && episodes);
  const isSampled = Boolean((persistent && node) || ((persistent || node) && (episodes || spikes)));
  const isLong = isSampled && (scenario.draws ?? FEW_DRAWS) > FEW_DRAWS;
  // Of a recursion there is no spread that could take long.
  const isWithout = (isDear || isLong) && method !== "recursion";
  const parts = { single_draw: true, leave_out: isWithout ? ["spread"] : [] };
  if (!isDear) return parts;
  const sizes = [...new Set([...FEW_SIZES, scenario.num_gpus])].sort((one, other) => one - other);
  return { ...parts, axis: { path: "num_gpus", values: sizes } };
}

/** The curve, and what was not asked for. */
async function curveOf(scenario, method, signal) {
  const parts = curveParts(scenario, method);
  const answer = await post("/v1/evaluations/curve", { scenario, ...parts }, signal);
  return { ...answer, isCoarse: parts.axis !== undefined, isWithoutRange: parts.leave_out.length > 0 };
}

async function post(path, body, signal) {
  return (await ask("POST", path, { body, signal })).data;
}

/**
 * Ask for what the store holds, as it changes. `show` has `mean(answer, turn)`, `full(answer, turn)`,
 * `curve(answer, turn)`, `timeline(answer | null, turn)`, `completed()`, `stale()`, `problem(problem)` of
 * the mean and `refusedPart(name, problem)` of the others; the first four may return promises.
 */
export function simulation(store, show) {
  let under_way = null;
  let later = null;
  let isNext = false;
  let refused = -1;
  let method = null;
  let restMs = REST_MS;
  let timer;

  async function mean() {
    isNext = false;
    if (away.isHeld()) {
      away.wait(again);
      return;
    }
    if (under_way) {
      if (performance.now() - under_way.since > LONG_MS) under_way.control.abort();
      return;
    }
    const turn = store.turn;
    const control = new AbortController();
    under_way = { control, since: performance.now() };
    try {
      const answer = await post("/v1/evaluations", { ...evaluationBody(store), leave_out: QUICK }, control.signal);
      under_way = null;
      method = answer.result.method;
      await show.mean(answer, turn);
    } catch (problem) {
      under_way = null;
      if (problem.name !== "AbortError" && turn === store.turn) {
        refused = turn;
        if (isOutage(problem)) away.show(problem, again);
        else {
          away.over(again);
          show.problem(problem);
        }
      }
    }
    if (turn !== store.turn) next();
  }

  /** Once for all changes of a moment, without waiting for a frame: ticks come no faster than those. */
  function next() {
    if (isNext) return;
    isNext = true;
    queueMicrotask(mean);
  }

  /** Each part stands alone: that one is refused says nothing of the others. Answers an outage, if it was one. */
  async function part(name, asked, turn) {
    try {
      const answer = await asked;
      if (turn === store.turn) await show[name](answer, turn);
    } catch (problem) {
      if (problem.name === "AbortError" || turn !== store.turn) return null;
      if (isOutage(problem)) return problem;
      show.refusedPart(name, problem);
    }
    return null;
  }

  function again() {
    refused = -1;
    next();
    resting();
  }

  async function rest() {
    if (under_way) {
      resting();
      return;
    }
    const turn = store.turn;
    if (refused === turn || away.isHeld()) return;
    const control = new AbortController();
    later = control;
    const { signal } = control;
    const since = performance.now();
    try {
      const body = evaluationBody(store);
      const scenario = body.scenario;
      const asked = [
        part("full", post("/v1/evaluations", body, signal), turn),
        part("curve", curveOf(scenario, method, signal), turn),
        scenario.pipeline
          ? part("timeline", post("/v1/evaluations/timeline", { scenario }, signal), turn)
          : part("timeline", null, turn),
      ];
      const outage = (await Promise.all(asked)).find(Boolean);
      restMs = Math.min(LONGEST_REST_MS, Math.max(REST_MS, (performance.now() - since) / 4));
      if (turn !== store.turn) return;
      if (outage) away.show(outage, again);
      else {
        away.over(again);
        show.completed();
      }
    } finally {
      if (later === control) later = null;
    }
  }
  function resting() {
    clearTimeout(timer);
    timer = setTimeout(rest, restMs);
  }

  store.onChange(() => {
    later?.abort();
    show.stale();
    next();
    resting();
  });
}
