// The scenario that the page is about, who wants to know of its changes, and what its base is.

import { START, at, copied, put } from "./scenario_state.js";

/** No profile: the start values of the page. */
export const BLANK = Object.freeze({ profile: null, slug: null, defaults: START, document: null, etag: null });

/**
 * `change` moves one number (a slider's tick), `reshape` what the scenario consists of, `replace`
 * all of it. Listeners get `{isShape, isWhole}`; `settle` tells those who wait for a change to be over.
 */
export function scenarioStore() {
  const listeners = [];
  const settlers = [];
  let claims = 0;
  const store = {
    scenario: copied(START),
    /** `{profile: "slug@1" | null, slug, defaults, document, etag}`: what the address is relative to. */
    base: BLANK,
    price: { mode: "none" },
    rows: 16,
    /** The scenario with all defaults written out, as the API last answered it. */
    known: {},
    /** Counts changes: an answer belongs to the scenario of its number. */
    turn: 0,
    valueAt(path) {
      let place = store.scenario;
      for (const part of path.split(".")) {
        if (place === null) return null;
        place = typeof place === "object" && Object.hasOwn(place, part) ? place[part] : undefined;
        if (place === undefined) return at(store.known, path);
      }
      return place;
    },
    change(path, value) {
      put(store.scenario, path, value);
      tell({ isShape: false });
    },
    reshape(work) {
      work(store.scenario);
      tell({ isShape: true });
      store.settle();
    },
    /** Before a whole scenario is asked for: whether this is still the newest wish for one. */
    claim() {
      claims += 1;
      const mine = claims;
      return () => mine === claims;
    },
    replace(scenario) {
      claims += 1;
      store.scenario = copied(scenario);
      tell({ isShape: true, isWhole: true });
    },
    settle() {
      for (const settler of settlers) settler();
    },
    onChange(listener) {
      listeners.push(listener);
    },
    onSettle(settler) {
      settlers.push(settler);
    },
    /** Money, base or rows changed: nothing of the scenario. */
    touched() {
      tell({ isShape: true });
    },
  };

  function tell(what) {
    store.turn += 1;
    for (const listener of listeners) listener(what);
  }
  return store;
}
