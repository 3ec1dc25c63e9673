// Bounds of fields, as the API's own document states them: none is written in the page.

import { get } from "./api.js";
import { exact } from "./format.js";
import { t } from "./texts.js";

let asked;

function schemas() {
  asked ??= get("/openapi.json").then((described) => described.components.schemas);
  return asked;
}

function variants(all, schema) {
  if (schema.$ref) return variants(all, all[schema.$ref.split("/").at(-1)]);
  return schema.anyOf ? schema.anyOf.flatMap((one) => variants(all, one)) : [schema];
}

/** The schema at a path: where a kind decides, that of the scenario's own kind. */
export function schemaAt(all, path, scenario) {
  let found = variants(all, { $ref: "#/components/schemas/Scenario" });
  let place = scenario;
  for (const part of path.split(".")) {
    const kind = place?.kind;
    const ofKind = found.filter((one) => !kind || one.properties?.kind?.enum?.includes(kind));
    found = (ofKind.length ? ofKind : found)
      .map((one) => (/^\d+$/.test(part) ? one.items : one.properties?.[part]))
      .filter(Boolean)
      .flatMap((one) => variants(all, one));
    place = place?.[part];
  }
  return found.find((one) => one.type === "number" || one.type === "integer") ?? null;
}

/** Write the bounds into the number fields of a form. */
export async function showBounds(form, scenario) {
  const all = await schemas();
  for (const field of form.querySelectorAll("input[data-path]:not([data-bounded])")) {
    const schema = schemaAt(all, field.dataset.path, scenario);
    if (!schema) continue;
    const factor = Number(field.dataset.factor);
    const shown = (bound) => Number((bound / factor).toPrecision(15));
    const least = schema.minimum ?? schema.exclusiveMinimum;
    const most = schema.maximum ?? schema.exclusiveMaximum;
    if (least !== undefined) field.min = String(shown(least));
    if (most !== undefined) field.max = String(shown(most));
    if (schema.type === "integer" && factor === 1) field.inputMode = "numeric";
    if (least !== undefined && most !== undefined) {
      field.title = t("scenario.from_to", { least: exact(shown(least)), most: exact(shown(most)) });
    }
    field.dataset.bounded = "";
  }
}
