// The form of a profile: its labels, the main numbers of its scenario as fields, all of it as JSON.

import { h } from "./dom.js";
import { field, fieldset, gathered, hint, setAt, valueAt } from "./form.js";
import { t } from "./texts.js";

const SLUG = /^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/;

/** Numbers of the scenario that have fields of their own, with their units and bounds. */
const MAIN = [
  ["/num_gpus", "", 1, { min: 1, max: 10_000_000, required: true }],
  ["/compute_ms", "ms", "any", { above: 0 }],
  ["/load_ms", "ms", "any", { min: 0 }],
  ["/communication/allreduce_ms", "ms", "any", { min: 0 }],
  ["/gpus_per_node", "", 1, { min: 1, max: 1024 }],
  ["/period_days", "d", 1, { min: 1, max: 3660 }],
];

const LABELS = [
  { pointer: "/name", kind: "text", required: true },
  { pointer: "/gpu_type", kind: "text", required: true },
  { pointer: "/cost_center", kind: "text" },
  { pointer: "/tags", kind: "pairs", rows: 2 },
];

function described(one) {
  const key = one.pointer.slice(1);
  return { ...one, label: t(`profiles.${key}`), hint: hint(`profiles.${key}_hint`) };
}

/** `{element, read(), show(document)}`; `isNew`: the slug is to be given too. */
export function profileForm({ isNew }) {
  const slug = isNew ? [{ pointer: "/slug", kind: "text", required: true, pattern: SLUG, wanted: t("common.give_slug") }] : [];
  const labels = fieldset([...slug, ...LABELS].map(described), { legend: t("profiles.labels") });
  const whole = field({
    pointer: "/defaults",
    kind: "json",
    rows: 16,
    label: t("profiles.defaults_json"),
    hint: t("profiles.defaults_json_hint"),
  });
  const numbers = MAIN.map(([path, unit, step, bounds]) => {
    const name = path.slice(1).replace("/", "_");
    return field({ pointer: `/defaults${path}`, kind: "number", step, ...bounds, label: t(`profiles.field_${name}`), unit: unit && t(`profiles.unit_${unit}`) });
  });

  /** The JSON is the truth; the numbers show parts of it, and write into it. */
  function showNumbers(defaults) {
    for (const [place, [path]] of MAIN.entries()) {
      numbers[place].set(valueAt(defaults, path));
      if (path.startsWith("/communication")) {
        const kind = defaults?.communication?.kind;
        numbers[place].disable(kind !== undefined && kind !== "fixed");
      }
    }
  }

  function write(place) {
    const path = MAIN[place][0];
    try {
      let defaults = setAt(whole.value() ?? {}, path, numbers[place].value() ?? undefined);
      if (defaults.communication && !defaults.communication.kind) {
        defaults = setAt(defaults, "/communication/kind", "fixed");
      }
      whole.set(defaults);
    } catch {
      // Neither can be read at the moment: sending the form says so.
    }
  }

  for (const place of MAIN.keys()) numbers[place].onChange(() => write(place));
  whole.onChange(() => {
    try {
      showNumbers(whole.value());
    } catch {
      // It is being typed.
    }
  });

  const scenario = h(
    "fieldset",
    {},
    h("legend", {}, t("profiles.scenario")),
    h("div", { class: "fields" }, numbers.map((one) => one.element)),
    whole.element,
  );
  return {
    element: h("div", {}, labels.element, scenario),
    read() {
      // So that what is no number is told, though the JSON has kept the number before it
      const [read, defaults] = gathered([labels.read, whole.checked, ...numbers.map((one) => one.checked)]);
      return { ...read, defaults };
    },
    show(document) {
      const shown = { cost_center: null, tags: {}, ...document };
      labels.show(
        Object.fromEntries([...slug, ...LABELS].map(({ pointer }) => [pointer.slice(1), shown[pointer.slice(1)] ?? null])),
      );
      whole.set(document.defaults);
      showNumbers(document.defaults);
    },
  };
}
