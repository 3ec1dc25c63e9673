// Sending a form, and asking before something is taken away.

import { byId, fill, h } from "./dom.js";
import { busy } from "./form.js";
import { holdFocus } from "./held_focus.js";
import { clearProblem, showProblem } from "./problems.js";
import { may } from "./session.js";
import { t } from "./texts.js";

/**
 * Do `work` when the form is sent. Its button waits meanwhile, problems go to their fields; what
 * somebody else has changed meanwhile (412) is told, with the choice to reload.
 */
export function onSubmit(form, work) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(event.submitter ?? form.querySelector("[type=submit]"), () => work(event.submitter), form);
  });
}

/**
 * Do `work` with the button waiting; what goes wrong is shown in the form, else above the page.
 * `successor`: the id of the button that takes its place then, and the keyboard with it.
 */
export async function attempt(button, work, form = null, successor = null) {
  clearProblem(form);
  const settle = holdFocus(button, successor);
  try {
    const done = await busy(button, work);
    settle();
    return done;
  } catch (problem) {
    if (problem.status === 412) showStale(form);
    else showProblem(problem, { form });
    settle();
    return undefined;
  }
}

function showStale(form) {
  const place = form?.querySelector(".faults") ?? byId("notice");
  const reload = h("button", { type: "button", onclick: () => location.reload() }, t("common.reload"));
  fill(place, h("p", {}, h("strong", {}, t("common.changed_meanwhile"))), reload);
  place.hidden = false;
  reload.focus();
}

/** Ask in a dialog; whether the answer was yes. `yes` and `otherwise` are the texts of its buttons. */
export function confirmed(question, yes, otherwise = t("common.cancel")) {
  return new Promise((resolve) => {
    const no = h("button", { value: "no" }, otherwise);
    const dialog = h(
      "dialog",
      { "aria-label": question },
      h("form", { method: "dialog" }, h("p", {}, question), h("div", { class: "actions" }, h("button", { value: "yes", class: "danger" }, yes), no)),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
    no.focus();
  });
}

/** Hide the elements from who may not use them; whether they may. `place` gets the sentence. */
export async function onlyWith(scope, elements, place = null) {
  const is = await may(scope);
  for (const element of elements) element.hidden = !is;
  if (!is && place) {
    fill(place, h("p", { class: "hint" }, t("common.not_permitted", { scope })));
    place.hidden = false;
  }
  return is;
}
