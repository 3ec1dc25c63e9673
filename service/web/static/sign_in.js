// Signing in: the key goes to the service once, and stays in no script and no storage.

import { ask } from "./api.js";
import { byId } from "./dom.js";
import { clearProblem, showProblem } from "./problems.js";

/** Where to go: a page of this service, never another host. */
function nextPlace() {
  const next = new URLSearchParams(location.search).get("next") ?? "/";
  const there = new URL(next, location.origin);
  const isOurs = there.origin === location.origin && there.pathname !== "/sign-in";
  return isOurs ? there.pathname + there.search + there.hash : "/";
}

const form = byId("sign-in");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  clearProblem(form);
  try {
    await ask("POST", "/v1/session", { body: { key: byId("key").value.trim() } });
    byId("key").value = "";
    location.assign(nextPlace());
  } catch (problem) {
    showProblem(problem, { form });
  }
});
