// What pages show of a batch: its state, its progress, and news of it while it runs.

import { get } from "./api.js";
import { h } from "./dom.js";
import { count } from "./format.js";
import { counted, named } from "./texts.js";

const RUNNING = new Set(["queued", "running", "canceling"]);
const LOOKS = {
  succeeded: "good",
  partially_failed: "warn",
  canceling: "warn",
  failed: "bad",
  expired: "bad",
};
const ASK_EVERY_MS = 2000;

export const STATES = [
  "queued", "running", "canceling", "succeeded", "partially_failed", "failed", "canceled", "expired",
];

export function isRunning(batch) {
  return RUNNING.has(batch.state);
}

export function stateText(state) {
  return named("results.state_", state);
}

export function stateTag(state) {
  return h("span", { class: `tag ${LOOKS[state] ?? ""}`.trim(), dataset: { state } }, stateText(state));
}

/** "12 of 35 points" with its bar; the bar goes when there is nothing more to wait for. */
export function progressOf(batch) {
  if (!isRunning(batch)) return count(batch.points_total);
  const text = pointsText(batch);
  const bar = h("progress", { max: Math.max(batch.points_total, 1), value: batch.points_done, "aria-label": text });
  return h("span", { class: "progress" }, bar, h("span", { class: "num" }, text));
}

export function pointsText(batch) {
  return counted("results.points_of", batch.points_total, count(batch.points_total), { done: count(batch.points_done) });
}

/**
 * Tell `changed(batch)` of every change until the batch has ended, by server-sent events; where
 * they do not come through it is asked for instead. Answers what stops it.
 */
export function follow(batch, changed) {
  if (!isRunning(batch)) return () => {};
  const events = new EventSource(`/v1/scenario-batches/${batch.id}/events`);
  let timer = null;
  const heard = (event) => changed(JSON.parse(event.data));
  events.addEventListener("progress", heard);
  events.addEventListener("ended", (event) => {
    events.close();
    heard(event);
  });
  // A broken connection is taken up again by the browser; a refused one is closed for good
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED && timer === null) poll();
  });
  async function poll() {
    try {
      const found = await get(`/v1/scenario-batches/${batch.id}`);
      changed(found);
      if (!isRunning(found)) return;
    } catch {
      // It is asked again: a service that restarts comes back
    }
    timer = setTimeout(poll, ASK_EVERY_MS);
  }
  return () => {
    events.close();
    clearTimeout(timer);
  };
}
