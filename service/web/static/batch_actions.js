// What can be done with a batch: cancel, retry, reprice, compare, delete; each as far as one may.

import { ask, create, withQuery } from "./api.js";
import { isRunning } from "./batch_parts.js";
import { leaveSaying } from "./carried_word.js";
import { fill, h } from "./dom.js";
import { holdFocus } from "./held_focus.js";
import { may } from "./session.js";
import { attempt, confirmed } from "./submit.js";
import { t } from "./texts.js";

const RETRIED = new Set(["canceled", "expired", "failed", "partially_failed"]);

/** Draw the buttons for the batch as it is; `changed(batch)` gets what an action answers. */
export async function showActions(place, batch, changed) {
  const [writes, seesCosts] = await Promise.all([may("batches:write"), may("costs:read")]);
  const path = `/v1/scenario-batches/${batch.id}`;
  const isOver = !isRunning(batch);
  // What runs may end while the keyboard is on one of its buttons
  const held = place.contains(document.activeElement) ? holdFocus(document.activeElement) : null;
  fill(
    place,
    writes && isRunning(batch) && batch.state !== "canceling" ? button("cancel_batch", cancel, "danger") : null,
    isOver ? h("a", { class: "button", href: withQuery("/compare", { candidate: batch.id }) }, t("results.compare_with")) : null,
    writes && RETRIED.has(batch.state) ? button("retry", retry) : null,
    isOver && seesCosts ? button("reprice", reprice) : null,
    writes && isOver ? button("delete_batch", remove, "danger") : null,
  );
  held?.();

  function button(text, work, look = null) {
    const element = h("button", { type: "button", class: look }, t(`results.${text}`));
    element.addEventListener("click", () => work(element));
    return element;
  }

  async function cancel(pressed) {
    if (!(await confirmed(t("results.cancel_question", { name: batch.name }), t("results.cancel_batch"), t("results.keep_running")))) return;
    await attempt(pressed, async () => changed((await ask("POST", `${path}/cancellation`)).data));
  }

  async function retry(pressed) {
    if (!(await confirmed(t("results.retry_question", { name: batch.name }), t("results.retry")))) return;
    await attempt(pressed, async () => {
      const { data } = await create(`${path}/retries`, {});
      location.assign(`/batches/${data.id}`);
    });
  }

  async function reprice(pressed) {
    const currency = await askedCurrency(batch);
    if (currency === null) return;
    await attempt(pressed, async () => {
      const { data } = await create(`${path}/repricings`, currency ? { currency } : {});
      location.assign(withQuery(location.pathname, { pricing: data.pricing }));
    });
  }

  async function remove(pressed) {
    if (!(await confirmed(t("results.delete_question", { name: batch.name }), t("results.delete_batch")))) return;
    await attempt(pressed, async () => {
      const { headers } = await ask("GET", path);
      await ask("DELETE", path, { headers: { "If-Match": headers.get("ETag") } });
      leaveSaying("/batches", t("common.was_deleted", { name: batch.name }));
    });
  }
}

/** The currency to price in, "" for that of the batch, null when it was let be. */
function askedCurrency(batch) {
  return new Promise((resolve) => {
    const input = h("input", {
      id: "reprice-currency", maxlength: 3, pattern: "[A-Z]{3}", value: batch.currency ?? "", required: !batch.currency, autocomplete: "off",
    });
    const dialog = h(
      "dialog",
      { "aria-label": t("results.reprice") },
      h(
        "form",
        { method: "dialog" },
        h("p", {}, t("results.reprice_question", { name: batch.name })),
        h("div", { class: "field" }, h("label", { for: "reprice-currency" }, t("results.currency")), input),
        h(
          "div",
          { class: "actions" },
          h("button", { value: "yes", class: "primary" }, t("results.reprice")),
          h("button", { value: "no", formnovalidate: true }, t("common.cancel")),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? input.value.trim() : null);
    });
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
}
