// What may be there or not, in one of several kinds: overlap, synchronization, pipeline, failures.

import { choiceControl, decades, even, numberControl, tickControl } from "./scenario_controls.js";
import { MS, advanced } from "./scenario_more.js";
import { lawControls } from "./scenario_variability.js";
import { named, t } from "./texts.js";

// What a kind is when it is chosen.
const OVERLAPS = {
  none: {},
  buckets: { num_buckets: 25, contention_fraction: 0 },
  fsdp: { num_layers: 32, prefetch_layers: 1 },
};
const SYNCHRONIZATIONS = {
  every_step: {},
  local_steps: { steps: 10 },
  bounded_staleness: { staleness: 1, delay_ms: 0 },
  delayed_update: { delay_ms: 0 },
  backup_workers: { count: 1 },
};
const SCHEDULES = [
  "gpipe", "1f1b", "interleaved_1f1b", "looped_bfs", "zb1p", "zb_h1", "zb_h2", "zbv",
  "interleaved_zb1p", "dualpipe", "dualpipev", "naive",
];
// Model chunks of a stage that a schedule is made for.
const CHUNKS = { interleaved_1f1b: 2, looped_bfs: 2, interleaved_zb1p: 2, zbv: 2, dualpipev: 2 };
const FAILURES = { detection_s: 60, restart_s: 240, checkpoint_write_s: 30, checkpoint_interval_s: "optimal", asynchronous_checkpoint: false };
const RATES = {
  failures_per_1000_node_days: 6.5,
  mtbf_hours_per_gpu: 30_000,
};

function kindChoice(store, field, kinds) {
  return choiceControl({
    name: `${field}.kind`,
    pointer: `/${field}`,
    label: t(`scenario.${field}_kind`),
    hint: t(`scenario.${field}_kind_hint`),
    options: Object.keys(kinds).map((kind) => [kind, t(`scenario.${field}_${kind}`)]),
    value: () => store.scenario[field]?.kind ?? Object.keys(kinds)[0],
    choose: (kind) =>
      store.reshape((scenario) => {
        scenario[field] = { kind, ...kinds[kind] };
      }),
  });
}

function stateOf(store, field, plain) {
  const kind = store.scenario[field]?.kind ?? plain;
  return { text: named(`scenario.${field}_`, kind), isPlain: kind === plain && !store.scenario[field]?.load_prefetch };
}

export const overlapSection = {
  name: "overlap",
  state: (store) => stateOf(store, "overlap", "none"),
  shape: (scenario) => [scenario.overlap?.kind, scenario.overlap?.num_buckets === null],
  build: (store) => {
    const kind = store.scenario.overlap?.kind ?? "none";
    const numbers = {
      none: [],
      buckets: [
        numberControl(store, { path: "overlap.num_buckets", slider: decades(1, 10_000), isOptional: true }),
        numberControl(store, { path: "overlap.contention_fraction", slider: even(0, 100, 1), unit: "%", factor: 0.01 }),
      ],
      fsdp: [
        numberControl(store, { path: "overlap.num_layers", slider: even(1, 200, 1) }),
        numberControl(store, { path: "overlap.prefetch_layers", slider: even(0, 16, 1) }),
      ],
    };
    return [
      kindChoice(store, "overlap", OVERLAPS),
      ...(numbers[kind] ?? []),
      tickControl({
        name: "overlap.load_prefetch",
        pointer: "/overlap/load_prefetch",
        label: t("scenario.overlap_load_prefetch"),
        hint: t("scenario.overlap_load_prefetch_hint"),
        value: () => store.scenario.overlap?.load_prefetch,
        choose: (isOn) =>
          store.reshape((scenario) => {
            scenario.overlap = { ...(scenario.overlap ?? { kind: "none" }), load_prefetch: isOn };
          }),
      }),
    ];
  },
};

export const synchronizationSection = {
  name: "synchronization",
  state: (store) => stateOf(store, "synchronization", "every_step"),
  shape: (scenario) => [scenario.synchronization?.kind],
  build: (store) => {
    const kind = store.scenario.synchronization?.kind ?? "every_step";
    const delay = numberControl(store, { path: "synchronization.delay_ms", unit: MS });
    const extra = numberControl(store, { path: "synchronization.extra_steps_fraction", unit: "%", factor: 0.01 });
    const numbers = {
      every_step: [],
      local_steps: [
        numberControl(store, { path: "synchronization.steps", slider: decades(1, 1000) }),
        advanced(store, "synchronization", [
          numberControl(store, { path: "synchronization.fragments" }),
          numberControl(store, { path: "synchronization.overlap_steps" }),
          numberControl(store, { path: "synchronization.release_fraction", unit: "%", factor: 0.01 }),
          extra,
        ]),
      ],
      bounded_staleness: [
        numberControl(store, { path: "synchronization.staleness", slider: even(0, 20, 1) }),
        advanced(store, "synchronization", [delay, extra]),
      ],
      delayed_update: [advanced(store, "synchronization", [delay, extra])],
      backup_workers: [numberControl(store, { path: "synchronization.count", slider: even(0, 64, 1), unit: t("scenario.unit_gpus") })],
    };
    return [kindChoice(store, "synchronization", SYNCHRONIZATIONS), ...(numbers[kind] ?? [])];
  },
};

export const pipelineSection = {
  name: "pipeline",
  state: (store) => {
    const schedule = store.scenario.pipeline?.schedule;
    return { text: t(schedule ? `scenario.schedule_${schedule}` : "scenario.pipeline_none"), isPlain: !schedule };
  },
  shape: (scenario) => [Boolean(scenario.pipeline), scenario.pipeline?.per_op_jitter?.kind],
  build: (store) => {
    const schedule = choiceControl({
      name: "pipeline.schedule",
      pointer: store.scenario.pipeline ? "/pipeline/schedule" : "/pipeline",
      label: t("scenario.pipeline_schedule"),
      hint: t("scenario.pipeline_schedule_hint"),
      options: [["none", t("scenario.pipeline_none")], ...SCHEDULES.map((name) => [name, t(`scenario.schedule_${name}`)])],
      value: () => store.scenario.pipeline?.schedule ?? "none",
      choose: (name) =>
        store.reshape((scenario) => {
          if (name === "none") {
            scenario.pipeline = null;
            return;
          }
          const before = scenario.pipeline ?? { stages: 8, microbatches: 16 };
          const chunks = CHUNKS[name] ?? 1;
          scenario.pipeline = { ...before, schedule: name };
          if (chunks !== (before.chunks_per_stage ?? 1)) scenario.pipeline.chunks_per_stage = chunks;
        }),
    });
    if (!store.scenario.pipeline) return [schedule];
    return [
      schedule,
      numberControl(store, { path: "pipeline.stages", slider: even(1, 64, 1) }),
      numberControl(store, { path: "pipeline.microbatches", slider: decades(1, 1024) }),
      numberControl(store, { path: "pipeline.p2p_ms", slider: even(0, 20, 0.1), unit: MS }),
      advanced(store, "pipeline", [
        numberControl(store, { path: "pipeline.chunks_per_stage" }),
        numberControl(store, { path: "pipeline.backward_weight_fraction", unit: "%", factor: 0.01 }),
        ...lawControls(store, "per_op_jitter", "pipeline.per_op_jitter"),
      ]),
    ];
  },
};

function rateOf(failures) {
  if (!failures) return "none";
  return failures.mtbf_hours_per_gpu === undefined || failures.mtbf_hours_per_gpu === null
    ? "failures_per_1000_node_days"
    : "mtbf_hours_per_gpu";
}

export const failuresSection = {
  name: "failures",
  state: (store) => ({
    text: t(`scenario.failures_by_${rateOf(store.scenario.failures)}`),
    isPlain: !store.scenario.failures,
  }),
  shape: (scenario) => [rateOf(scenario.failures), scenario.failures?.checkpoint_interval_s === "optimal"],
  build: (store) => {
    const rate = rateOf(store.scenario.failures);
    const kind = choiceControl({
      name: "failures.rate",
      pointer: "/failures",
      label: t("scenario.failures_kind"),
      hint: t("scenario.failures_kind_hint"),
      options: ["none", ...Object.keys(RATES)].map((name) => [name, t(`scenario.failures_by_${name}`)]),
      value: () => rateOf(store.scenario.failures),
      choose: (name) =>
        store.reshape((scenario) => {
          if (name === "none") {
            scenario.failures = null;
            return;
          }
          const kept = { ...FAILURES, ...scenario.failures };
          for (const other of Object.keys(RATES)) delete kept[other];
          scenario.failures = { ...kept, [name]: RATES[name] };
        }),
    });
    if (rate === "none") return [kind];
    const isOptimal = (store.scenario.failures.checkpoint_interval_s ?? "optimal") === "optimal";
    return [
      kind,
      numberControl(store, {
        path: `failures.${rate}`,
        slider: rate === "mtbf_hours_per_gpu" ? decades(100, 10_000_000) : decades(0.1, 100),
        unit: rate === "mtbf_hours_per_gpu" ? t("scenario.unit_hours") : "",
      }),
      numberControl(store, { path: "failures.restart_s", slider: even(0, 3600, 10), unit: "s" }),
      numberControl(store, { path: "failures.checkpoint_write_s", slider: even(0, 600, 5), unit: "s" }),
      tickControl({
        name: "failures.optimal",
        pointer: isOptimal ? "/failures/checkpoint_interval_s" : null,
        label: t("scenario.failures_optimal"),
        hint: t("scenario.failures_optimal_hint"),
        value: () => isOptimal,
        choose: (isOn) =>
          store.reshape((scenario) => {
            scenario.failures.checkpoint_interval_s = isOn ? "optimal" : 3600;
          }),
      }),
      ...(isOptimal ? [] : [numberControl(store, { path: "failures.checkpoint_interval_s", slider: decades(10, 100_000), unit: "s" })]),
      advanced(store, "failures", [
        numberControl(store, { path: "failures.detection_s", unit: "s" }),
        tickControl({
          name: "failures.asynchronous",
          pointer: "/failures/asynchronous_checkpoint",
          label: t("scenario.failures_asynchronous"),
          hint: t("scenario.failures_asynchronous_hint"),
          value: () => store.valueAt("failures.asynchronous_checkpoint"),
          choose: (isOn) =>
            store.reshape((scenario) => {
              scenario.failures.asynchronous_checkpoint = isOn;
            }),
        }),
      ]),
    ];
  },
};
