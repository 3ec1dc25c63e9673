// Slow GPUs: groups of a count and a speed.

import { h } from "./dom.js";
import { choiceControl, decades, even, numberControl } from "./scenario_controls.js";
import { t } from "./texts.js";

// Where a second group begins, so that it says something else than the first.
const NEW_GROUP = { count: 1, speed_fraction: 0.9 };

/** As many as there are GPUs: the slider says nothing that would be refused. */
function upToAll(store) {
  const all = decades(1, 10_000_000);
  return {
    get most() {
      let last = 0;
      while (last < all.most && all.value(last + 1) <= store.scenario.num_gpus) last += 1;
      return last;
    },
    value: all.value,
    place: all.place,
  };
}

function group(store, position) {
  const path = `slow_groups.${position}`;
  const controls = [
    numberControl(store, { path: `${path}.count`, slider: upToAll(store), unit: t("scenario.unit_gpus") }),
    numberControl(store, { path: `${path}.speed_fraction`, slider: even(5, 100, 1), unit: "%", factor: 0.01 }),
  ];
  if (store.scenario.pipeline) controls.push(placement(store, position));
  const title = t("scenario.slow_group", { number: position + 1 });
  const remove = h(
    "button",
    {
      type: "button",
      class: "quiet",
      "aria-label": t("scenario.remove_group", { number: position + 1 }),
      onclick: () => store.reshape((scenario) => scenario.slow_groups.splice(position, 1)),
    },
    t("scenario.remove"),
  );
  return {
    element: h(
      "div",
      { class: "group", role: "group", "aria-label": title },
      h("div", { class: "spread" }, h("span", { class: "label" }, title), remove),
      controls.map((one) => one.element),
    ),
    parts: controls,
  };
}

function placement(store, position) {
  const stages = Number(store.scenario.pipeline.stages) || 0;
  // More stages than these are written by their number into the address or a profile.
  const listed = Array.from({ length: Math.min(stages, 64) }, (_, stage) => [String(stage), t("scenario.stage", { number: stage })]);
  return choiceControl({
    name: `slow_groups.${position}.placement`,
    pointer: `/slow_groups/${position}/placement`,
    label: t("scenario.slow_groups_placement"),
    hint: t("scenario.slow_groups_placement_hint"),
    options: [["random", t("scenario.placement_random")], ["worst", t("scenario.placement_worst")], ...listed],
    value: () => store.scenario.slow_groups[position].placement ?? "random",
    choose: (value) =>
      store.reshape((scenario) => {
        scenario.slow_groups[position].placement = /^\d+$/.test(value) ? Number(value) : value;
      }),
  });
}

export const slowSection = {
  name: "slow",
  shape: (scenario) => [
    Array.isArray(scenario.slow_groups) ? scenario.slow_groups.map((one) => one?.placement) : 0,
    scenario.pipeline?.stages,
  ],
  build: (store) => {
    const groups = Array.isArray(store.scenario.slow_groups) ? store.scenario.slow_groups : [];
    const add = h(
      "button",
      {
        type: "button",
        "data-button": "add-group",
        "data-pointer": "/slow_groups",
        onclick: () =>
          store.reshape((scenario) => {
            scenario.slow_groups = [...(scenario.slow_groups ?? []), { ...NEW_GROUP }];
          }),
      },
      t("scenario.add_group"),
    );
    const none = groups.length ? null : h("p", { class: "hint" }, t("scenario.no_slow"));
    return [
      ...groups.map((_, position) => group(store, position)),
      { element: h("div", { class: "field" }, none, add) },
    ];
  },
};
