// A secret that is shown once, and how long the one before it goes on to sign.

import { announce, h } from "./dom.js";
import { t } from "./texts.js";

const OVERLAPS_S = [86_400, 3_600, 604_800, 0];

/** In a dialog, until it is closed; null when an answer with the secret got lost before. */
export function showSecret({ name, secret }) {
  return new Promise((resolve) => {
    const shown = secret
      ? [
          h("p", {}, t("deliveries.secret_once")),
          h("div", { class: "secret" }, h("code", { id: "secret", tabindex: "0" }, secret), h("button", { type: "button", onclick: (event) => copy(secret, event.target) }, t("common.copy"))),
          h("p", { class: "hint" }, t("deliveries.secret_use")),
        ]
      : h("p", { class: "advice" }, t("deliveries.secret_lost"));
    const done = h("button", { value: "yes", class: "primary" }, t("deliveries.secret_kept"));
    const title = t("deliveries.secret_of", { name });
    const dialog = h("dialog", { "aria-label": title }, h("form", { method: "dialog" }, h("h2", {}, title), shown, h("div", { class: "actions" }, done)));
    // Not by mistake: it is shown once
    dialog.addEventListener("cancel", (event) => secret && event.preventDefault());
    opened(dialog, resolve, () => undefined);
    done.focus();
  });
}

async function copy(text, button) {
  let told = t("common.copied");
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Not over plain HTTP: it is marked, to be copied by hand
    getSelection().selectAllChildren(document.getElementById("secret"));
    told = t("deliveries.copy_by_hand");
  }
  button.textContent = told;
  announce(told);
}

/** Seconds for which the old secret signs too, as chosen in a dialog; null when it was let be. */
export function askedOverlap(name) {
  return new Promise((resolve) => {
    const select = h("select", { id: "overlap" }, OVERLAPS_S.map((one) => h("option", { value: one }, t(`deliveries.overlap_${one}`))));
    const question = t("deliveries.rotate_question", { name });
    const dialog = h(
      "dialog",
      { "aria-label": t("deliveries.rotate") },
      h(
        "form",
        { method: "dialog" },
        h("p", {}, question),
        h("div", { class: "field" }, h("label", { for: "overlap" }, t("deliveries.overlap")), select),
        h("div", { class: "actions" }, h("button", { value: "yes", class: "primary" }, t("deliveries.rotate")), h("button", { value: "no" }, t("common.cancel"))),
      ),
    );
    opened(dialog, resolve, (answer) => (answer === "yes" ? Number(select.value) : null));
    select.focus();
  });
}

function opened(dialog, resolve, answered) {
  dialog.addEventListener("close", () => {
    dialog.remove();
    resolve(answered(dialog.returnValue));
  });
  document.body.append(dialog);
  dialog.showModal();
}
