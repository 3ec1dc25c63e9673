// The address holds the scenario: what differs from its base, one history entry a settled change.

import { Problem, ask, get } from "./api.js";
import { byId, fill, h, settled } from "./dom.js";
import { copied, readQuery, writeQuery } from "./scenario_state.js";
import { BLANK } from "./scenario_store.js";
import { lasting } from "./simulator_away.js";
import { priceFields, readPrice, writePrice } from "./simulator_price.js";
import { t } from "./texts.js";

const SETTLED_MS = 500;
const MOST_ROWS = 1000;
const MOST_LETTERS = 160;

export function addressOf(store) {
  const query = new URLSearchParams();
  if (store.base.profile) query.append("profile", store.base.profile);
  writeQuery(query, store.scenario, store.base.defaults);
  writePrice(query, store.price);
  if (store.rows !== 16) query.append("rows", String(store.rows));
  const text = query.toString();
  return text ? `${location.pathname}?${text}` : location.pathname;
}

/** The base of a profile, with its defaults; raises `Problem`. */
export async function profileBase(reference) {
  const [slug, revision] = reference.split("@");
  const path = `/v1/cluster-profiles/${encodeURIComponent(slug)}`;
  const { data: newest, headers } = await ask("GET", path);
  if (!revision || String(newest.revision) === revision) return baseOf(newest, headers.get("etag"));
  return baseOf(await get(`${path}/revisions/${encodeURIComponent(revision)}`), null);
}

/** `etag` is that of the profile when this was its newest revision; null for an earlier one. */
export function baseOf(document, etag) {
  return { profile: `${document.slug}@${document.revision}`, slug: document.slug, defaults: document.defaults, document, etag };
}

/** `{base, scenario, price, rows, faults}`: what is refused is replaced by the base's, and said. */
async function read(query) {
  const faults = [];
  let base = BLANK;
  if (query.get("profile")) {
    try {
      base = await lasting(() => profileBase(query.get("profile")));
    } catch (problem) {
      faults.push(problem.detail || problem.title);
    }
  }
  const found = readQuery(query, base.defaults);
  faults.push(...found.faults.map((name) => t("simulator.unreadable", { name })));
  const isAsked = [...query].length > 0;
  const asked = { scenario: found.scenario, price: readPrice(query) };
  const { scenario, price } = isAsked ? await sound(asked, base.defaults, faults) : asked;
  const rows = Number(query.get("rows") ?? 16);
  return {
    base,
    scenario,
    price,
    rows: Number.isInteger(rows) && rows > 0 && rows <= MOST_ROWS ? rows : 16,
    faults,
  };
}

/** The scenario with what the API refuses put back; controls are only ever built of a valid one. */
async function sound(asked, defaults, faults) {
  let { scenario, price } = asked;
  for (let round = 0; round < 3; round += 1) {
    try {
      const body = { scenario, ranks_limit: 0, leave_out: ["spread", "causes", "quantiles"], ...priceFields(price) };
      await lasting(() => ask("POST", "/v1/evaluations", { body }));
      return { scenario, price };
    } catch (problem) {
      if (!(problem instanceof Problem) || problem.status !== 422) throw problem;
      const refused = new Set();
      for (const { pointer, detail } of problem.errors) {
        faults.push(`${pointer.replace(/^\/(scenario\/)?/, "").replaceAll("/", ".")}: ${shortened(detail)}`);
        const [, part, name] = pointer.split("/");
        if (part === "scenario") refused.add(name);
        else price = { mode: "none" };
      }
      // A refusal of the whole scenario names no field: nothing of it can be kept.
      if (refused.has(undefined)) scenario = {};
      const kept = Object.entries(scenario).filter(([name]) => !refused.has(name));
      const restored = [...refused].filter((name) => Object.hasOwn(defaults, name)).map((name) => [name, copied(defaults[name])]);
      scenario = Object.fromEntries([...kept, ...restored]);
    }
  }
  return { scenario: copied(defaults), price: { mode: "none" } };
}

function shortened(text) {
  return text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS)}…` : text;
}

function showFaults(faults) {
  const place = byId("address-faults");
  place.hidden = faults.length === 0;
  fill(place, h("p", {}, t("simulator.address_faults")), h("ul", {}, faults.slice(0, 8).map((fault) => h("li", {}, fault))));
}

/** Bring the store to what the address says, now and when it is gone back to. */
export async function followAddress(store, problemOf) {
  /** Whether the store was changed since the address was last read or written. */
  let isChanged = false;
  /** Whether the address is ahead of the store: it is being read. */
  let isReading = () => false;

  async function follow() {
    // Who goes back twice wants the second place: an older answer that comes later is of no use.
    const isNewest = store.claim();
    isReading = isNewest;
    let found;
    try {
      found = await read(new URLSearchParams(location.search));
    } catch (problem) {
      if (!isNewest()) return;
      problemOf(problem);
      found = { base: BLANK, scenario: BLANK.defaults, price: store.price, rows: store.rows, faults: [] };
    }
    if (!isNewest()) return;
    const { scenario, faults, ...others } = found;
    Object.assign(store, others);
    showFaults(faults);
    store.replace(scenario);
    isChanged = false;
  }
  const write = settled(() => {
    if (isReading() || !isChanged) return;
    const address = addressOf(store);
    isChanged = false;
    if (address !== location.pathname + location.search) history.pushState(null, "", address);
  }, SETTLED_MS);

  store.onChange(() => {
    isChanged = true;
    write();
  });
  addEventListener("popstate", follow);
  await follow();
}
