// Decimals that are typed, read as the page's language writes them: 1,234.50 in English,
// 1 234,50 in French. What could be meant in two ways is not read at all, and no float comes in.

import { exact, money } from "./format.js";
import { language, t } from "./texts.js";

// Groups are whole or not there at all: 1,23 may well be meant as 1.23.
const FORMS = {
  en: { pattern: /^([+-]?)(\d+|\d{1,3}(?:,\d{3})+)?(?:\.(\d*))?$/, groups: /,/g, mark: "." },
  // A space, also one that does not break, wide or narrow.
  fr: { pattern: /^([+-]?)(\d+|\d{1,3}(?:[ \u00a0\u202f]\d{3})+)?(?:,(\d*))?$/, groups: /[ \u00a0\u202f]/g, mark: "," },
};

function formOf(written) {
  return FORMS[written] ?? FORMS.en;
}

/** "1,234.50" → "1234.50", as the API takes it; null where it is not surely one number. */
export function typedDecimal(text, written = language) {
  const { pattern, groups } = formOf(written);
  const [found, sign, whole, part] = pattern.exec(text.trim().replace("\u2212", "-")) ?? [];
  if (!found || !(whole || part)) return null;
  return `${sign === "-" ? "-" : ""}${whole?.replace(groups, "") ?? "0"}${part ? `.${part}` : ""}`;
}

/**
 * Any number as it is typed, also with a power of ten: 1.5e-3. Null for an empty text, undefined for
 * one that is not surely one number.
 */
export function typedNumber(text, written = language) {
  const [, lead, power] = /^(.*?)(?:e([+-]?\d{1,3}))?$/i.exec(text.trim()) ?? [];
  if (lead === "" && power === undefined) return null;
  const amount = typedDecimal(lead ?? "", written);
  const value = amount === null ? Number.NaN : Number(power === undefined ? amount : `${amount}e${power}`);
  return Number.isFinite(value) ? value : undefined;
}

/** A number as the language writes it in a field, in all its digits and without groups. */
export function writtenNumber(value, written = language) {
  return String(value).replace(".", formOf(written).mark);
}

/** A decimal of the API as the language writes it in a field; what is none stays as it is. */
export function writtenDecimal(amount, written = language) {
  return /^-?\d+(\.\d+)?$/.test(amount) ? amount.replace(".", formOf(written).mark) : amount;
}

/** The sentence at a field whose text is not surely one number. */
export function decimalRefused() {
  return t("common.no_decimal", { example: exact("1234.5"), plain: writtenDecimal("1234.5") });
}

/** What was read, as money where the currency is known. */
export function decimalRead(amount, currency) {
  const isKnown = /^[A-Z]{3}$/.test(currency ?? "");
  return t("common.decimal_read", { amount: isKnown ? money({ amount, currency }) : exact(amount) });
}
