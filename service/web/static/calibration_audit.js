// The overlap audit of a step's phases, as a form.

import { ask } from "./api.js";
import { byId, fill } from "./dom.js";
import { fieldset } from "./form.js";
import { overlapAudit } from "./calibration_overlap.js";
import { described } from "./calibration_fields.js";
import { onSubmit } from "./submit.js";

const time = (name, more = {}) => ({ pointer: `/${name}`, kind: "number", step: "any", above: 0, unit: "ms", ...more });
const FIELDS = [
  time("step_ms", { required: true, absent: true }),
  time("compute_ms", { required: true, absent: true }),
  time("communication_ms", { required: true, absent: true }),
  { pointer: "/load_ms", kind: "number", step: "any", min: 0, unit: "ms", absent: true },
  ...["step_sd_ms", "compute_sd_ms", "communication_sd_ms", "load_sd_ms"].map((name) => ({ pointer: `/${name}`, kind: "number", step: "any", min: 0, unit: "ms", absent: true })),
  { pointer: "/backward_fraction", kind: "number", step: "any", above: 0, max: 1, unit: "share", absent: true },
  { pointer: "/load_is_prefetched", kind: "select", options: "yes_no" },
  { pointer: "/communication_includes_wait", kind: "select", options: "yes_no" },
  time("no_communication_step_ms"),
  time("overlap_off_step_ms"),
  time("isolated_communication_ms"),
  { pointer: "/confidence", kind: "number", step: "any", min: 0.5, max: 0.99, unit: "share", absent: true },
];

export function auditForm() {
  const form = byId("audit-form");
  const place = byId("audit");
  const fields = fieldset(FIELDS.map(described));
  fill(byId("audit-fields"), fields.element);
  fields.show({});
  fields.onChange(() => fill(place));
  onSubmit(form, async () => {
    fill(place);
    const { data } = await ask("POST", "/v1/overlap-audits", { body: fields.read() });
    fill(place, overlapAudit(data));
  });
}
