// Numbers, money and times as the page's language writes them. Nothing is computed here.
//
// As many digits as a reader can use, as in reports (service/reports/digits.py): whole GPU-hours
// from 1 000 on, one decimal from 10 on, three digits below.

import { language } from "./texts.js";

export const NOTHING = "–";

const kept = new Map();

function formatter(options) {
  const key = JSON.stringify(options);
  if (!kept.has(key)) kept.set(key, new Intl.NumberFormat(language, options));
  return kept.get(key);
}

/** A number with its options of Intl.NumberFormat; what is not known is a dash. */
export function number(value, options = {}) {
  if (value === null || value === undefined || Number.isNaN(value)) return NOTHING;
  return formatter(options).format(value).replace(/^-/, "\u2212");
}

export function count(value) {
  return number(value, { maximumFractionDigits: 0 });
}

function sized(value, extra = {}) {
  const size = Math.abs(value ?? 0);
  if (size >= 1000) return { maximumFractionDigits: 0, ...extra };
  if (size >= 10) return { minimumFractionDigits: 1, maximumFractionDigits: 1, ...extra };
  return { maximumSignificantDigits: 3, ...extra };
}

/** GPU-hours without the unit. */
export function hours(value) {
  return number(value, sized(value));
}

/** A difference: + before what rose. */
export function signedHours(value) {
  return number(value, sized(value, { signDisplay: "exceptZero" }));
}

/** Milliseconds without the unit. */
export function ms(value) {
  const size = Math.abs(value ?? 0);
  if (size < 1) return number(value, { maximumSignificantDigits: 4 });
  const digits = size < 1000 ? 2 : size < 10_000 ? 1 : 0;
  return number(value, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A fraction as a percentage with its sign. */
export function percent(fraction, digits = 2) {
  return number(fraction, {
    style: "percent",
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

export function signedPercent(fraction, digits = 1) {
  return number(fraction, {
    style: "percent",
    maximumFractionDigits: digits,
    signDisplay: "exceptZero",
  });
}

/** A number as it was given, with all its digits. */
export function exact(value) {
  return number(value, { maximumFractionDigits: 20 });
}

/** `{amount: "1234.56", currency: "EUR"}`: the digits stay those of the text, no float comes in. */
export function money(cost, options = {}) {
  if (!cost) return NOTHING;
  const digits = cost.amount.split(".")[1]?.length ?? 0;
  return number(cost.amount, {
    style: "currency",
    currency: cost.currency,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
    ...options,
  });
}

export function signedMoney(cost) {
  return money(cost, { signDisplay: "exceptZero" });
}

const days = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeZone: "UTC" });
const MINUTES = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "longOffset" };
const SECONDS = { ...MINUTES, second: "2-digit" };

/** A calendar day (2026-12-01): no zone moves it. */
export function day(text) {
  return text ? days.format(new Date(`${text}T00:00:00Z`)) : NOTHING;
}

/** As people write it, with how far its zone is from UTC: "Mar 28, 2027, 03:00 AM (UTC+02:00)". */
function zoned(text, options, zone) {
  const parts = momentFormatter({ ...options, timeZone: zone }).formatToParts(new Date(text));
  const offset = parts.find((part) => part.type === "timeZoneName").value;
  const shown = parts.filter((part) => part.type !== "timeZoneName").map((part) => part.value).join("").trim();
  return `${shown} (${offset.replace(/^(GMT|UTC)/, "UTC").replace("-", "\u2212")})`;
}

function momentFormatter(options) {
  const key = `moment ${JSON.stringify(options)}`;
  if (!kept.has(key)) kept.set(key, new Intl.DateTimeFormat(language, options));
  return kept.get(key);
}

/** A moment in the reader's zone, which it names; pass a zone for another one. */
export function moment(text, zone = undefined) {
  return text ? zoned(text, MINUTES, zone) : NOTHING;
}

/** A moment to the second, in the reader's zone. */
export function exactMoment(text) {
  return zoned(text, SECONDS);
}

/** An element for a moment, with the exact one in `datetime` and in its tooltip. */
export function momentElement(text, zone = undefined) {
  const element = document.createElement("time");
  element.textContent = moment(text, zone);
  if (text) {
    element.dateTime = text;
    element.title = text;
  }
  return element;
}
