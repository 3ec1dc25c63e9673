// The API's faults in the page's language: a sentence for its code, and the API's own beside it.

import { h } from "./dom.js";
import { numberWanted } from "./field_checks.js";
import { has, language, t } from "./texts.js";

const NUMBER = /expected (int|float)( \| null)?(?: (>=|<=|>|<) (-?[\d.e+-]+))?/;

/** What is to be given instead, out of the API's words on a value of the wrong kind or size. */
function wantedOf({ code, detail }, factor) {
  if (code === "wrong_length" && / >= 1$/.test(detail)) return t("common.needed");
  if (code !== "wrong_type" && code !== "out_of_range") return null;
  const found = NUMBER.exec(detail);
  if (!found) return detail.startsWith("null is refused") ? t("common.needed") : null;
  const [, kind, , sign, bound] = found;
  const bounds = { ">=": "min", "<=": "max", ">": "above" };
  if (sign && !bounds[sign]) return null;
  // In the unit of the field, not in the API's
  const shown = Number((Number(bound) / factor).toPrecision(15));
  return numberWanted({
    isWhole: kind === "int" && factor === 1,
    ...(sign ? { [bounds[sign]]: shown } : {}),
  });
}

/**
 * Of one error `{code, detail}`: its sentence in the page's language, or null. `factor`: what one of
 * the field's unit is in the API's.
 */
export function sentenceOf(error, factor = 1) {
  const wanted = wantedOf(error, factor);
  if (wanted) return wanted;
  // The API speaks English, and says more than the code does
  if (language === "en") return null;
  return has(`common.code_${error.code}`) ? t(`common.code_${error.code}`) : null;
}

/** Its words as nodes; what is said in English elsewhere is marked as that. `isOwn`: the page's own words. */
export function wordsOf(error, factor = 1) {
  if (error.isOwn) return [error.detail];
  const own = sentenceOf(error, factor);
  const theirs = language === "en" ? error.detail : h("span", { lang: "en" }, error.detail);
  if (!own) return [theirs];
  return language === "en" ? [own] : [`${own} `, theirs];
}
