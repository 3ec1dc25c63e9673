// The service is away: said below the header, which is always in sight, until the figures are true again.

import { byId, fill, h } from "./dom.js";
import { backOff, isOutage } from "./outage.js";
import { t } from "./texts.js";

const place = h("div", { id: "away", class: "notice", role: "alert", hidden: true });
const pace = backOff();
let waiting = new Set();
let timer = null;
let heldUntil = 0;
let said = "";
byId("notice").before(place);

function again() {
  clearTimeout(timer);
  timer = null;
  heldUntil = 0;
  const works = waiting;
  waiting = new Set();
  for (const work of works) work();
}

function say(problem) {
  const why = { 0: "simulator.away_unreachable", 429: "simulator.away_busy" }[problem.status] ?? "simulator.away_failed";
  // The same sentence is not told again with every try, and its button keeps the focus.
  if (said === why && !place.hidden) return;
  said = why;
  const button = h("button", { type: "button", onclick: again }, t("common.again"));
  fill(place, h("p", {}, h("strong", {}, t(why)), " ", t("simulator.away_hint")), button);
  place.hidden = false;
}

export const away = {
  /** Say so, and call `work` when it is time to try again. */
  show(problem, work) {
    waiting.add(work);
    say(problem);
    if (timer !== null) return;
    const wait = pace.after(problem);
    if (problem.retryAfterMs !== null) heldUntil = performance.now() + wait;
    timer = setTimeout(again, wait);
  },
  /** Call `work` then too. */
  wait(work) {
    waiting.add(work);
  },
  /** Whether the service asked to be left alone until then. */
  isHeld: () => performance.now() < heldUntil,
  /** It answers again: `work` has its answer, whoever else waits asks now. */
  over(work) {
    waiting.delete(work);
    pace.over();
    // The button goes: who is on it goes on reading at the page's beginning, which does not scroll.
    if (place.contains(document.activeElement)) byId("main").focus({ preventScroll: true });
    place.hidden = true;
    again();
  },
};

/** What `work` answers, as soon as the service can; raises what is no outage. */
export async function lasting(work) {
  let wasAway = false;
  for (;;) {
    try {
      const answer = await work();
      if (wasAway) away.over();
      return answer;
    } catch (problem) {
      if (!isOutage(problem)) throw problem;
      wasAway = true;
      await new Promise((done) => away.show(problem, done));
    }
  }
}
