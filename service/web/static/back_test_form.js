// A run, or stored timings, to hold against what a profile predicts.

import { create } from "./api.js";
import { byId, fill } from "./dom.js";
import { fieldset } from "./form.js";
import { described } from "./calibration_fields.js";
import { onSubmit } from "./submit.js";

const time = (name) => ({ pointer: `/run/${name}`, kind: "number", step: "any", above: 0, unit: "ms" });
const FIELDS = [
  { pointer: "/profile", kind: "text", required: true },
  { pointer: "/run/name", kind: "text", required: true },
  { pointer: "/run/num_steps", kind: "number", step: 1, min: 1, required: true },
  { ...time("step_mean_ms"), required: true },
  { pointer: "/run/num_gpus", kind: "number", step: 1, min: 1, max: 10_000_000 },
  { pointer: "/run/observed_at", kind: "date" },
  { ...time("step_sd_ms"), above: undefined, min: 0 },
  time("step_p50_ms"),
  time("step_p95_ms"),
  { pointer: "/run/gpu_hours", kind: "number", step: "any", above: 0, unit: "gpu_hours" },
  ...["load_ms", "slowest_compute_ms", "communication_ms"].map((name) => ({ pointer: `/run/${name}`, kind: "number", step: "any", min: 0, unit: "ms" })),
  { pointer: "/tolerance_fraction", kind: "number", step: "any", min: 0.001, max: 0.5, unit: "share", absent: true },
];

/** Of the run's fields the words are those without "run/". */
function worded(one) {
  return described({ ...one, words: one.pointer.slice(1).replace("run/", "run_") });
}

export function backTestForm(made) {
  const form = byId("test-form");
  const fields = fieldset(FIELDS.map(worded));
  fill(byId("test-fields"), fields.element);
  fields.field("/profile").input.setAttribute("list", "profiles");
  fields.show({ tolerance_fraction: 0.05 });
  onSubmit(form, async () => {
    const read = fields.read();
    if (read.run?.observed_at) read.run.observed_at = `${read.run.observed_at}T00:00:00Z`;
    const { data } = await create("/v1/back-tests", read);
    made(data);
  });
  return { setProfile: (slug) => fields.field("/profile").set(slug) };
}
