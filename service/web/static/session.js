// Who looks at the page, and what they may do.

import { ask } from "./api.js";

let asked;

/**
 * `{is_open, signed_in, name, role, team, scopes}`: `is_open` while no key exists, and everybody may
 * do all; without a key of a closed service `signed_in` is false and there are no scopes.
 */
export function session() {
  asked ??= ask("GET", "/v1/session").then((answer) => answer.data);
  return asked;
}

/** Whether it is still the same person, asked anew: they may have signed out in another tab. */
export async function isStillThere() {
  const [before, now] = [await session(), (await ask("GET", "/v1/session")).data];
  return before.signed_in === now.signed_in && before.name === now.name;
}

export async function may(scope) {
  return (await session()).scopes.includes(scope);
}
