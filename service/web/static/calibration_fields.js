// Fields of the forms of calibrations, with their words, and sizes of files.

import { number } from "./format.js";
import { t } from "./texts.js";

/** A description of `form.js` with its words: those of its pointer, or of `words`. */
export function described(one) {
  const name = one.words ?? one.pointer.slice(1);
  return {
    ...one,
    label: t(`calibrations.field_${name}`),
    hint: t(`calibrations.field_${name}_hint`),
    unit: one.unit ? t(`calibrations.unit_${one.unit}`) : undefined,
    list: undefined,
    options: one.options === "yes_no" ? [[null, t("calibrations.not_known")], [true, t("profiles.yes")], [false, t("profiles.no")]] : one.options,
  };
}

export function bytesText(value) {
  const [size, unit] = value >= 1e9 ? [value / 1e9, "gb"] : value >= 1e6 ? [value / 1e6, "mb"] : value >= 1e3 ? [value / 1e3, "kb"] : [value, "b"];
  return t(`calibrations.bytes_${unit}`, { size: number(size, { maximumFractionDigits: unit === "b" ? 0 : 1 }) });
}
