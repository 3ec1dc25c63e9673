// What went wrong, at the field where it did, else above the page.

import { wordsOf } from "./api_words.js";
import { byId, fill, h } from "./dom.js";
import { t } from "./texts.js";

/**
 * Show a problem. Each of its errors goes to the field of `form` whose `data-pointer` is the error's
 * pointer or the longest beginning of it; `prefix` is what the request has before the form's own
 * pointers ("/scenario"); `focus: false` leaves the reader where he is. What finds no field is listed in the form's `.faults`, or above the page.
 */
export function showProblem(problem, { form = null, prefix = "", focus = true } = {}) {
  if (problem.name === "AbortError") return;
  clearProblem(form);
  const homeless = [];
  let first = null;
  for (const error of problem.errors ?? []) {
    const field = form ? fieldOf(form, error.pointer ?? "", prefix) : null;
    if (!field) {
      homeless.push(error);
      continue;
    }
    first ??= field;
    // What could not be read is said there already
    if (!field.hasAttribute("data-unread")) markField(field, error);
  }
  const told = homeless.map((error) => [`${error.pointer ?? error.parameter ?? "/"}: `, ...wordsOf(error)]);
  if (told.length || !first) showNotice(form, problem, told);
  if (focus) first?.focus();
}

/** Take all marks away; what the page itself could not read (data-unread) stays marked until it is typed anew. */
export function clearProblem(form = null) {
  byId("notice").hidden = true;
  if (!form) return;
  for (const field of form.querySelectorAll("[aria-invalid]:not([data-unread])")) clearField(field);
  const list = form.querySelector(".faults");
  if (list) fill(list).hidden = true;
}

/** Take the mark of one field away. */
export function clearField(field) {
  field.removeAttribute("aria-invalid");
  const id = `${field.id}-fault`;
  document.getElementById(id)?.remove();
  const others = (field.getAttribute("aria-describedby") ?? "").split(" ").filter((one) => one && one !== id);
  if (others.length) field.setAttribute("aria-describedby", others.join(" "));
  else field.removeAttribute("aria-describedby");
}

function fieldOf(form, pointer, prefix) {
  let path = pointer.startsWith(prefix) ? pointer.slice(prefix.length) : pointer;
  while (path) {
    const field = form.querySelector(`[data-pointer="${CSS.escape(path)}"]`);
    if (field) return field;
    path = path.slice(0, path.lastIndexOf("/"));
  }
  return null;
}

/** Mark a field, with the words of an error `{code, detail, isOwn}` below it. */
export function markField(field, error) {
  if (!field.id) field.id = `field-${crypto.randomUUID()}`;
  const id = `${field.id}-fault`;
  const before = document.getElementById(id);
  if (before) {
    // A list may break one rule at several places: that is said once
    const known = [...before.children].some((one) => one.dataset.detail === error.detail);
    if (!known) before.append(said(error, field));
    return;
  }
  field.setAttribute("aria-invalid", "true");
  const others = field.getAttribute("aria-describedby");
  field.setAttribute("aria-describedby", others ? `${others} ${id}` : id);
  (field.closest(".field") ?? field.parentElement).append(h("div", { class: "fault", id }, said(error, field)));
}

function said(error, field) {
  const factor = Number(field.dataset.factor ?? 1);
  return h("p", { dataset: { detail: error.detail } }, wordsOf(error, factor));
}

function showNotice(form, problem, told) {
  const list = form?.querySelector(".faults");
  const place = list ?? byId("notice");
  const detail = told.length ? h("ul", {}, told.map((words) => h("li", {}, words))) : null;
  const sentence = [problem.title, problem.detail].filter(Boolean).join(": ");
  const trace = problem.traceId ? h("small", {}, t("common.trace", { id: problem.traceId })) : null;
  fill(place, h("p", {}, h("strong", {}, sentence || String(problem))), detail, trace);
  place.hidden = false;
}
