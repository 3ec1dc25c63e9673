// What a field's description says of its value, checked before anything is sent. The API decides
// all the same; here the reader is told at once, in his language.

import { exact } from "./format.js";
import { t } from "./texts.js";

/** "Give a whole number from 1 to 1 024.", as far as there are bounds. */
export function numberWanted({ isWhole = false, min = null, max = null, above = null }) {
  const kind = isWhole ? "whole" : "number";
  if (above !== null) return t(`common.give_${kind}_above`, { min: exact(above) });
  if (min !== null && max !== null) return t(`common.give_${kind}_between`, { min: exact(min), max: exact(max) });
  if (min !== null) return t(`common.give_${kind}_from`, { min: exact(min) });
  if (max !== null) return t(`common.give_${kind}_to`, { max: exact(max) });
  return t(`common.give_${kind}`);
}

/**
 * The sentence about a value that is not as `{kind, required, step, min, max, above, pattern, wanted}`
 * says, or null. `pattern`: a RegExp of a text; `wanted`: the sentence where it does not fit.
 */
export function faultOf(description, value) {
  const { kind, required, step, min = null, max = null, above = null, pattern, wanted } = description;
  const isEmpty = value === null || value === undefined || value === "";
  if (kind === "number") {
    if (isEmpty) return required ? numberWanted({ isWhole: step === 1, min, max, above }) : null;
    const isGood =
      Number.isFinite(value) &&
      (step !== 1 || Number.isInteger(value)) &&
      (min === null || value >= min) &&
      (max === null || value <= max) &&
      (above === null || value > above);
    return isGood ? null : numberWanted({ isWhole: step === 1, min, max, above });
  }
  if (isEmpty) return required ? t("common.needed") : null;
  return pattern && !pattern.test(value) ? wanted : null;
}

/** Of what is known by its text: a number in plain digits, as addresses and the API write it. */
export function faultOfText(description, text) {
  if (description.kind !== "number") return faultOf(description, text);
  if (text === "") return faultOf(description, null);
  return faultOf(description, /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN);
}
