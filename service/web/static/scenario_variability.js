// Variability: one switch that decides most (drawn once, or anew in every step), and all sources.

import { h } from "./dom.js";
import { choiceControl, even, numberControl, tickControl } from "./scenario_controls.js";
import { advanced } from "./scenario_more.js";
import { t } from "./texts.js";

const LAWS = ["transient", "persistent", "node", "replica", "common"];
const FAMILIES = ["normal", "lognormal", "gamma", "shifted_gamma", "exponential", "weibull", "pareto"];
// What a source is when it is switched on.
const BEGINNINGS = {
  law: { kind: "normal", cv: 0.05 },
  spikes: { probability: 0.001, slowdown: 2 },
  episodes: { rate_per_gpu_day: 0.01, mean_hours: 0.5, severity: 1.3 },
};

function varied(scenario) {
  scenario.variability ??= {};
  return scenario.variability;
}

/** Which of the two the simple slider moves. */
function simpleSource(store) {
  const sources = store.scenario.variability ?? {};
  if (sources.transient) return "transient";
  if (sources.persistent) return "persistent";
  return store.wished ?? "persistent";
}

function simple(store) {
  const source = simpleSource(store);
  const cv = numberControl(store, {
    path: `variability.${source}.cv`,
    name: "variability_cv",
    slider: even(0, 30, 0.5),
    unit: "%",
    factor: 0.01,
    write: (value) => {
      const sources = varied(store.scenario);
      sources[source] = { ...(sources[source] ?? BEGINNINGS.law), cv: value };
      store.touched();
    },
  });
  const element = cv.element;
  const radios = ["persistent", "transient"].map((name) => {
    const id = `founding-${name}`;
    const radio = h("input", {
      type: "radio",
      id,
      name: "founding",
      value: name,
      "data-tick": id,
      onchange: () => {
        store.wished = name;
        store.reshape((scenario) => {
          const sources = varied(scenario);
          const law = sources[source] ?? null;
          sources[source] = null;
          sources[name] = law;
        });
      },
    });
    radio.checked = name === source;
    return h("label", { class: "choice", for: id }, radio, h("span", {}, t(`scenario.founding_${name}`), h("small", {}, t(`scenario.founding_${name}_hint`))));
  });
  return [
    { element: h("div", { class: "founding", role: "radiogroup", "aria-label": t("scenario.founding") }, radios) },
    {
      element,
      path: cv.path,
      // No source is no spread.
      show: (value, isWhole) => cv.show(value ?? 0, isWhole),
    },
  ];
}

function law(store, source, path = `variability.${source}`) {
  const value = path.split(".").reduce((place, part) => place?.[part], store.scenario) ?? null;
  const controls = [
    choiceControl({
      name: path,
      pointer: `/${path.replaceAll(".", "/")}`,
      label: t(`scenario.source_${source}`),
      hint: t(`scenario.source_${source}_hint`),
      options: [["none", t("scenario.none")], ...FAMILIES.map((kind) => [kind, t(`scenario.law_${kind}`)])],
      value: () => value?.kind ?? "none",
      choose: (kind) =>
        store.reshape((scenario) => {
          const parts = path.split(".");
          if (parts[0] === "variability") varied(scenario);
          const place = scenario[parts[0]];
          if (kind === "none") place[parts[1]] = null;
          else {
            const cv = value?.cv ?? BEGINNINGS.law.cv;
            place[parts[1]] = kind === "shifted_gamma" ? { kind, cv, skew: 1 } : { kind, cv };
          }
        }),
    }),
  ];
  if (value && "cv" in value) controls.push(numberControl(store, { path: `${path}.cv`, name: "law_cv", slider: even(0, 50, 0.5), unit: "%", factor: 0.01 }));
  if (value && "skew" in value) controls.push(numberControl(store, { path: `${path}.skew`, name: "law_skew", slider: even(0.1, 4, 0.1) }));
  return controls;
}

function switched(store, source, fields) {
  const value = store.scenario.variability?.[source] ?? null;
  return [
    tickControl({
      name: `variability.${source}`,
      pointer: `/variability/${source}`,
      label: t(`scenario.source_${source}`),
      hint: t(`scenario.source_${source}_hint`),
      value: () => value !== null,
      choose: (isOn) =>
        store.reshape((scenario) => {
          varied(scenario)[source] = isOn ? { ...BEGINNINGS[source] } : null;
        }),
    }),
    ...(value ? fields.map((field) => numberControl(store, { ...field, path: `variability.${source}.${field.path}`, name: `${source}_${field.path}` })) : []),
  ];
}

export { law as lawControls };

export const variabilitySection = {
  name: "variability",
  shape: (_, store) => [simpleSource(store)],
  build: simple,
};

/** All of them, apart: they may be built anew while the simple slider is moved. */
export const sourcesSection = {
  name: "sources",
  isNested: true,
  shape: (scenario) => [
    ...LAWS.map((source) => scenario.variability?.[source]?.kind ?? null),
    Boolean(scenario.variability?.spikes),
    Boolean(scenario.variability?.episodes),
  ],
  build: (store) => [
    advanced(store, "variability", [
      ...LAWS.flatMap((source) => law(store, source)),
      numberControl(store, { path: "variability.autocorrelation", slider: even(0, 0.95, 0.05) }),
      ...switched(store, "spikes", [
        { path: "probability", unit: "%", factor: 0.01 },
        { path: "slowdown", unit: "×" },
      ]),
      ...switched(store, "episodes", [
        { path: "rate_per_gpu_day" },
        { path: "mean_hours", unit: t("scenario.unit_hours") },
        { path: "severity", unit: "×" },
      ]),
    ]),
  ],
};
