// Signing in: the key goes to the service once, and stays in no script and no storage.

import { ask } from "./api.js";
import { byId } from "./dom.js";
import { clearProblem, showProblem } from "./problems.js";
import { session } from "./session.js";
import { t } from "./texts.js";

/** Where to go: a page of this service, with its whole address, which leads nowhere else. */
function nextPlace() {
  try {
    const next = new URLSearchParams(location.search).get("next") ?? "/";
    const there = new URL(next, location.origin);
    // blob:http://this-host/x has the origin of this service too, and is no page of it.
    const isHere = there.protocol === location.protocol && there.origin === location.origin;
    if (isHere && there.pathname !== "/sign-in") {
      return `${location.origin}${there.pathname}${there.search}${there.hash}`;
    }
  } catch {
    // It is no address at all.
  }
  return "/";
}

/** The service's sentence about the key, within one of the page's language. */
function inWords(problem) {
  for (const error of problem.errors ?? []) {
    if (has(error.code)) error.detail = t(`sign_in.${error.code}`, { detail: error.detail });
  }
  return problem;
}

function has(code) {
  return code === "refused_key" || code === "no_api_key";
}

function offerToGoOn(reason) {
  byId("reason").textContent = reason;
  byId("go-on").href = nextPlace();
  byId("no-need").hidden = false;
  form.hidden = true;
  byId("go-on").focus();
}

async function signIn(event) {
  event.preventDefault();
  clearProblem(form);
  button.disabled = true;
  try {
    await ask("POST", "/v1/session", { body: { key: byId("key").value.trim() } });
    byId("key").value = "";
    // Not `assign`: going back leads to where the reader came from.
    location.replace(nextPlace());
  } catch (problem) {
    showProblem(inWords(problem), { form });
  } finally {
    button.disabled = false;
  }
}

const form = byId("sign-in");
const button = form.querySelector("button");
form.addEventListener("submit", signIn);
try {
  const who = await session();
  if (who.is_open) offerToGoOn(t("sign_in.open"));
  else if (who.signed_in) offerToGoOn(t("sign_in.signed_in", { name: who.name, role: who.role }));
  else form.hidden = false;
} catch {
  // chrome.js says why; trying may help.
  form.hidden = false;
}
if (!form.hidden) byId("key").focus();
