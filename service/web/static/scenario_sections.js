// The sections of controls: built anew only when the scenario consists of something else.

import { fill, h } from "./dom.js";
import { choiceControl, decades, even, numberControl, powersOfTwo } from "./scenario_controls.js";
import { communicationSection } from "./scenario_communication.js";
import { slowSection } from "./scenario_slow.js";
import { sourcesSection, variabilitySection } from "./scenario_variability.js";
import { failuresSection, overlapSection, pipelineSection, synchronizationSection } from "./scenario_parts.js";
import { MS, advanced } from "./scenario_more.js";
import { t } from "./texts.js";

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

/** Put all sections into `place`; `show()` brings them up to date with the store. */
export function scenarioSections(place, store) {
  const built = SECTIONS.map((section) => {
    const body = h("div", {});
    const element = section.isNested
      ? h("div", { class: "section nested", "data-section": section.name }, body)
      : h(
          "fieldset",
          { class: "section", "data-section": section.name },
          h("legend", {}, t(`scenario.section_${section.name}`)),
          body,
        );
    return { section, body, element, shape: null, controls: [] };
  });
  fill(place, ...built.map((one) => one.element));

  function rebuild(one) {
    const held = one.body.contains(document.activeElement) ? marker(document.activeElement) : null;
    const parts = one.section.build(store);
    one.controls = parts.flatMap((part) => part.parts ?? [part]);
    fill(one.body, ...parts.map((part) => part.element));
    if (held) one.body.querySelector(held)?.focus();
  }
  return {
    show() {
      for (const one of built) {
        const shape = JSON.stringify(one.section.shape(store.scenario, store));
        if (shape !== one.shape) {
          one.shape = shape;
          rebuild(one);
        }
        for (const control of one.controls) control.show?.(control.path ? store.valueAt(control.path) : null);
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
