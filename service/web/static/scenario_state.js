// The scenario of the simulator: the document that is sent to the API, and how an address holds it.
//
// `?num_gpus=1024&slow_groups.0.count=2`: only top-level fields that differ from the base (the
// start values, or a profile) are written, each of them whole. What values are allowed, the API says.

/** The start values of the page: 64 GPUs, one of them at 70 %. */
export const START = Object.freeze({
  num_gpus: 64,
  load_ms: 30,
  compute_ms: 300,
  communication: { kind: "fixed", allreduce_ms: 80 },
  slow_groups: [{ count: 1, speed_fraction: 0.7 }],
});

// Fields that are never null, and what they are where there is nothing of them
const NOTHING_OF = Object.freeze({ slow_groups: [], variability: {}, overlap: { kind: "none" } });
const RESERVED = new Set(["profile", "price", "currency", "rates", "cost_center", "rows", "lang"]);
const NAME = /^[a-z][a-z0-9_]*(\.[a-z0-9][a-z0-9_]*){0,4}$/;
const MOST_LETTERS = 16_000;
const MOST_ENTRIES = 1_024;

export function copied(value) {
  return structuredClone(value);
}

/** Whether two documents say the same; the order of keys does not matter. */
export function same(one, other) {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || !one || !other) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]))
  );
}

/** What stands at a path such as `slow_groups.0.count`; undefined where nothing does. */
export function at(scenario, path) {
  let place = scenario;
  for (const part of path.split(".")) {
    if (place === null || typeof place !== "object" || !Object.hasOwn(place, part)) return undefined;
    place = place[part];
  }
  return place;
}

/** Put a value at a path; objects on the way are made. */
export function put(scenario, path, value) {
  const parts = path.split(".");
  let place = scenario;
  for (const part of parts.slice(0, -1)) {
    if (!Object.hasOwn(place, part) || place[part] === null) place[part] = {};
    place = place[part];
  }
  place[parts.at(-1)] = value;
}

/** Top-level fields that differ from the base: what the overrides of a profile are. */
export function differing(scenario, base) {
  const found = {};
  for (const [name, value] of Object.entries(scenario)) {
    if (!same(value, base[name])) found[name] = value;
  }
  return found;
}

/** The fields that differ, as parameters of an address. */
export function writeQuery(query, scenario, base) {
  for (const [name, value] of Object.entries(differing(scenario, base))) write(query, name, value);
}

function write(query, path, value) {
  const isBranch = value !== null && typeof value === "object";
  const isLeafList = Array.isArray(value) && value.length && value.every((one) => typeof one !== "object");
  if (value === null || (isBranch && Object.keys(value).length === 0)) query.append(path, "none");
  else if (isLeafList) query.append(path, JSON.stringify(value));
  else if (isBranch) for (const [name, part] of Object.entries(value)) write(query, `${path}.${name}`, part);
  else query.append(path, String(value));
}

/** `{scenario, faults}`: the base with what the address says; faults are parameters it cannot read. */
export function readQuery(query, base) {
  const faults = [];
  const given = new Map();
  const entries = [...query].filter(([name]) => !RESERVED.has(name));
  const letters = entries.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  if (letters > MOST_LETTERS || entries.length > MOST_ENTRIES) return { scenario: copied(base), faults: ["…"] };
  for (const [name, value] of entries) {
    if (!NAME.test(name) || given.has(name)) faults.push(name.slice(0, 80));
    else given.set(name, value);
  }
  const tree = {};
  for (const [name, text] of given) {
    const isTaken = !place(tree, name.split("."), read(name, text));
    if (isTaken) faults.push(name);
  }
  const scenario = copied(base);
  for (const [name, value] of Object.entries(tree)) scenario[name] = listed(value);
  return { scenario, faults };
}

function read(name, text) {
  // A union may have the kind "none": only whole fields can be left out by it.
  if (text === "none" && !name.endsWith(".kind")) return copied(NOTHING_OF[name] ?? null);
  try {
    const value = JSON.parse(text);
    const isPlain = typeof value !== "object" || value === null || isListOfPlain(value);
    return isPlain && typeof value !== "string" ? value : text;
  } catch {
    return text;
  }
}

function isListOfPlain(value) {
  return Array.isArray(value) && value.every((one) => typeof one !== "object" || one === null);
}

function place(tree, parts, value) {
  let branch = tree;
  for (const part of parts.slice(0, -1)) {
    if (!Object.hasOwn(branch, part)) branch[part] = {};
    branch = branch[part];
    if (branch === null || typeof branch !== "object" || Array.isArray(branch)) return false;
  }
  const last = parts.at(-1);
  if (Object.hasOwn(branch, last)) return false;
  branch[last] = value;
  return true;
}

/** Objects with the names 0, 1, … are lists. */
function listed(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  const names = Object.keys(value);
  const parts = names.map((name) => listed(value[name]));
  if (names.length && names.every((name, place) => name === String(place))) return parts;
  return Object.fromEntries(names.map((name, position) => [name, parts[position]]));
}
