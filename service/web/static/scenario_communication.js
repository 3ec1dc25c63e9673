// Communication: a fixed time, or a collective over links, which are presets or values of one's own.

import { get } from "./api.js";
import { choiceControl, decades, even, numberControl } from "./scenario_controls.js";
import { MS, advanced } from "./scenario_more.js";
import { t } from "./texts.js";

const KINDS = ["fixed", "ring", "tree", "hierarchical", "auto", "transfer", "nccl"];
const OWN = "own";
const BEGINNINGS = {
  // 7e9 parameters of 16 bit.
  message_bytes: 14e9,
  link: "infiniband_ndr_400_2026_11",
  intra_link: "nvlink_4_2026_11",
  own: { bandwidth_gigabytes_per_s: 50, latency_us: 5 },
};

let presets = [];

/** Ask for the presets once; the section is built again when they are here. */
export async function loadPresets(store) {
  presets = (await get("/v1/link-presets")).items;
  store.presetsLoaded = true;
}

function hasLink(kind) {
  return !["fixed", "measured"].includes(kind);
}

function hasIntraLink(kind) {
  return ["hierarchical", "auto", "nccl"].includes(kind);
}

function begun(kind, before) {
  if (kind === "fixed") return { kind, allreduce_ms: before?.allreduce_ms ?? 80 };
  const found = {
    kind,
    message_bytes: before?.message_bytes ?? BEGINNINGS.message_bytes,
    link: before?.link ?? { preset: BEGINNINGS.link },
  };
  if (hasIntraLink(kind)) found.intra_link = before?.intra_link ?? { preset: BEGINNINGS.intra_link };
  return found;
}

function presetLabel(preset) {
  // An identifier with the month of its values; the provenance is in the API.
  return t("scenario.preset", { name: preset.name.replaceAll("_", " "), bandwidth: preset.bandwidth_gigabytes_per_s });
}

function link(store, which) {
  const path = `communication.${which}`;
  const value = store.scenario.communication[which] ?? null;
  const chosen = value === null ? "none" : (value.preset ?? OWN);
  const options = [
    ...(store.scenario.communication.kind === "auto" && which === "intra_link" ? [["none", t("scenario.none")]] : []),
    ...presets.map((preset) => [preset.name, presetLabel(preset)]),
    [OWN, t("scenario.own_link")],
  ];
  const controls = [
    choiceControl({
      name: path,
      pointer: `/communication/${which}`,
      label: t(`scenario.communication_${which}`),
      hint: t(`scenario.communication_${which}_hint`),
      options,
      value: () => chosen,
      choose: (name) =>
        store.reshape((scenario) => {
          if (name === "none") scenario.communication[which] = null;
          else scenario.communication[which] = name === OWN ? { ...BEGINNINGS.own } : { preset: name };
        }),
    }),
  ];
  if (chosen === OWN) {
    controls.push(
      numberControl(store, { path: `${path}.bandwidth_gigabytes_per_s`, name: "link_bandwidth", slider: decades(0.01, 1000), unit: "GB/s" }),
      numberControl(store, { path: `${path}.latency_us`, name: "link_latency", slider: decades(0.1, 100_000), unit: "µs" }),
    );
  }
  return controls;
}

export const communicationSection = {
  name: "communication",
  shape: (scenario, store) => [
    scenario.communication?.kind,
    scenario.communication?.link?.preset,
    scenario.communication?.intra_link && (scenario.communication.intra_link.preset ?? OWN),
    Boolean(store.presetsLoaded),
    scenario.communication?.parameters === undefined || scenario.communication?.parameters === null,
  ],
  build: (store) => {
    const found = store.scenario.communication ?? { kind: "fixed" };
    const kind = choiceControl({
      name: "communication.kind",
      pointer: "/communication",
      label: t("scenario.communication_kind"),
      hint: t("scenario.communication_kind_hint"),
      options: KINDS.map((one) => [one, t(`scenario.communication_${one}`)]),
      value: () => store.scenario.communication?.kind,
      choose: (chosen) =>
        store.reshape((scenario) => {
          scenario.communication = begun(chosen, scenario.communication);
        }),
    });
    if (found.kind === "fixed") {
      return [kind, numberControl(store, { path: "communication.allreduce_ms", slider: even(0, 500, 5), unit: MS })];
    }
    if (!hasLink(found.kind)) return [kind];
    const size = typeof found.parameters === "number"
      ? [
          numberControl(store, { path: "communication.parameters", slider: decades(0.01, 10_000), unit: "10⁹", factor: 1e9 }),
          numberControl(store, { path: "communication.bytes_per_parameter" }),
        ]
      : [numberControl(store, { path: "communication.message_bytes", slider: decades(0.001, 10_000), unit: "GB", factor: 1e9 })];
    return [
      kind,
      ...size,
      ...link(store, "link"),
      ...(hasIntraLink(found.kind) ? link(store, "intra_link") : []),
      advanced(store, "communication", [
        numberControl(store, { path: "communication.slowest_link_fraction", unit: "%", factor: 0.01 }),
        numberControl(store, { path: "communication.compression_ratio", unit: "×" }),
        numberControl(store, { path: "communication.compression_ms", unit: MS }),
      ]),
    ];
  },
};
