// Moments of schedules: in the zone that the API says, and in UTC; and their expression in words.

import { h } from "./dom.js";
import { language } from "./texts.js";

const WALL = new Intl.DateTimeFormat(language, {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  timeZone: "UTC",
});

/** "2026-10-25T02:30:00+02:00" as wall time with its offset: the API's, whatever this browser knows. */
export function localTime(local) {
  const [, wall, offset] = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d(?::\d\d)?)?$/.exec(local) ?? [];
  if (!wall) return local;
  const shown = WALL.format(new Date(`${wall}Z`));
  return offset ? `${shown} (UTC${offset === "Z" ? "" : offset.replace("-", "\u2212")})` : shown;
}

/** The same as an element. */
export function localElement(local) {
  return h("time", { datetime: local, title: local }, localTime(local));
}

export function utcTime(at) {
  return h("time", { datetime: at, title: at }, `${WALL.format(new Date(at))} (UTC)`);
}

/** An expression in words, with its zone; null where the API has no sentence for it. */
export function cronWords({ cron_words, zone }) {
  const words = cron_words[language];
  return words ? h("div", { class: "cron-words" }, `${words}, ${zone}`) : null;
}
