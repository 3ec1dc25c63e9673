// The state of a page in its query string: reload, back and a copied link restore it.

/** The parameters of the query, one value each; names that repeat: `all`. */
export function asked() {
  const query = new URLSearchParams(location.search);
  return {
    get: (name) => query.get(name),
    all: (name) => query.getAll(name),
    has: (name) => query.has(name),
  };
}

/**
 * Change parameters: null, "" and [] take one away, a list repeats it. `push` makes a step of the
 * history (what one would go back from); else the present one is rewritten. `state` is merged into
 * that of the step and survives a reload.
 */
export function setAsked(changes, { push = false, state = {} } = {}) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, String(one));
    }
  }
  const text = query.toString();
  const url = `${location.pathname}${text ? `?${text}` : ""}${location.hash}`;
  const kept = { ...(history.state ?? {}), ...state };
  if (push && url !== location.pathname + location.search + location.hash) history.pushState(kept, "", url);
  else history.replaceState(kept, "", url);
}

/** Call `work` after back and forward. */
export function onMoved(work) {
  addEventListener("popstate", () => work());
}
