// The sections of controls: built anew only when the scenario consists of something else.

import { fill, h } from "./dom.js";
import { choiceControl, decades, even, numberControl, powersOfTwo } from "./scenario_controls.js";
import { communicationSection } from "./scenario_communication.js";
import { slowSection } from "./scenario_slow.js";
import { sourcesSection, variabilitySection } from "./scenario_variability.js";
import { failuresSection, overlapSection, pipelineSection, synchronizationSection } from "./scenario_parts.js";
import { MS, advanced, folded } from "./scenario_more.js";
import { number } from "./format.js";
import { counted, t } from "./texts.js";

const gpus = {
  name: "gpus",
  shape: (scenario) => [scenario.scaling],
  build: (store) => [
    numberControl(store, { path: "num_gpus", slider: powersOfTwo(10_000_000), unit: t("scenario.unit_gpus") }),
    advanced(store, "gpus", [
      numberControl(store, { path: "gpus_per_node", unit: t("scenario.unit_gpus") }),
      numberControl(store, { path: "tensor_parallel_size", unit: t("scenario.unit_gpus") }),
      choiceControl({
        name: "scaling",
        label: t("scenario.scaling"),
        hint: t("scenario.scaling_hint"),
        pointer: "/scaling",
        options: ["weak", "strong"].map((kind) => [kind, t(`scenario.scaling_${kind}`)]),
        value: () => store.scenario.scaling?.kind ?? store.scenario.scaling ?? "weak",
        choose: (kind) =>
          store.reshape((scenario) => {
            scenario.scaling = kind === "strong" ? { kind, reference_num_gpus: scenario.num_gpus } : kind;
          }),
      }),
      ...(store.scenario.scaling?.kind === "strong"
        ? [numberControl(store, { path: "scaling.reference_num_gpus", unit: t("scenario.unit_gpus") })]
        : []),
      numberControl(store, { path: "num_spare_gpus", unit: t("scenario.unit_gpus") }),
      numberControl(store, { path: "num_evicted_gpus", unit: t("scenario.unit_gpus") }),
    ]),
  ],
};

const step = {
  name: "step",
  shape: () => [],
  build: (store) => [
    numberControl(store, { path: "load_ms", slider: even(0, 500, 5), unit: MS }),
    numberControl(store, { path: "compute_ms", slider: even(10, 2000, 10), unit: MS }),
    advanced(store, "step", [
      numberControl(store, { path: "backward_fraction", unit: "%", factor: 0.01 }),
    ]),
  ],
};

const window_ = {
  name: "window",
  state: (store) => {
    const days = store.valueAt("period_days");
    const text = days === undefined || days === null ? "" : counted("scenario.days", days, number(days));
    return { text, isPlain: !["period_days", "total_steps", "seed", "draws"].some((name) => name in store.scenario) };
  },
  shape: () => [],
  build: (store) => [
    numberControl(store, { path: "period_days", slider: even(1, 365, 1), unit: t("scenario.unit_days") }),
    advanced(store, "window", [
      numberControl(store, { path: "total_steps", isOptional: true }),
      numberControl(store, { path: "seed" }),
      numberControl(store, { path: "draws", slider: decades(16, 100_000) }),
    ]),
  ],
};

const SECTIONS = [
  gpus,
  step,
  communicationSection,
  slowSection,
  variabilitySection,
  sourcesSection,
  overlapSection,
  synchronizationSection,
  pipelineSection,
  failuresSection,
  window_,
];

/** A section that is always open, or one that says in a line what it holds. */
function framed(section, body) {
  if (section.isNested) return h("div", { class: "section nested", "data-section": section.name }, body);
  const title = t(`scenario.section_${section.name}`);
  if (section.state) return folded(section.name, title, body).element;
  return h("fieldset", { class: "section", "data-section": section.name }, h("legend", {}, title), body);
}

/** Put all sections into `place`; `show()` brings them up to date with the store, `show(true)` the
 * field that is being typed in as well. */
export function scenarioSections(place, store) {
  const built = SECTIONS.map((section) => {
    const body = h("div", {});
    return { section, body, element: framed(section, body), shape: null, isPlain: null, controls: [] };
  });
  fill(place, ...built.map((one) => one.element));

  function rebuild(one) {
    const held = one.body.contains(document.activeElement) ? marker(document.activeElement) : null;
    const parts = one.section.build(store);
    one.controls = parts.flatMap((part) => part.parts ?? [part]);
    fill(one.body, ...parts.map((part) => part.element));
    if (held) one.body.querySelector(held)?.focus();
  }
  /** What is there is shown: a preset, or an address, may have put it there. */
  function unfold(one) {
    const { text, isPlain } = one.section.state(store);
    one.element.querySelector(".state").textContent = text;
    if (!isPlain && one.isPlain !== false) one.element.open = true;
    one.isPlain = isPlain;
  }
  return {
    show(isWhole = false) {
      for (const one of built) {
        const shape = JSON.stringify(one.section.shape(store.scenario, store));
        if (shape !== one.shape) {
          one.shape = shape;
          rebuild(one);
        }
        if (one.section.state) unfold(one);
        for (const control of one.controls) control.show?.(control.path ? store.valueAt(control.path) : null, isWhole);
      }
    },
  };
}

/** How to find an element again that was built anew. */
function marker(element) {
  for (const name of ["data-path", "data-slider", "data-choice", "data-tick", "data-button"]) {
    const value = element.getAttribute(name);
    if (value) return `[${name}="${CSS.escape(value)}"]`;
  }
  return null;
}
