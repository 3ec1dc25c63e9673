// Who looks at the page, and what they may do.

import { ask, goToSignIn } from "./api.js";

let asked;

/**
 * `{is_open, signed_in, name, role, team, scopes}`: `is_open` while no key exists, and everybody may
 * do all. A visitor of a closed service goes to sign in, where `signed_in` is false.
 */
export function session() {
  asked ??= ask("GET", "/v1/session").then(({ data }) => {
    return data.is_open || data.signed_in || isForVisitors() ? data : goToSignIn();
  });
  return asked;
}

function isForVisitors() {
  return document.body.matches(".page-sign_in, .page-missing");
}

/** Whether it is still the same person, asked anew: they may have signed out in another tab. */
export async function isStillThere() {
  const [before, now] = [await session(), (await ask("GET", "/v1/session")).data];
  return before.signed_in === now.signed_in && before.name === now.name;
}

export async function may(scope) {
  return (await session()).scopes.includes(scope);
}
