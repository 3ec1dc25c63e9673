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

export async function may(scope) {
  return (await session()).scopes.includes(scope);
}
