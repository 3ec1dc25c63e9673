// Dialogs that make something of the scenario: a profile or a revision of one, a batch.

import { ask, create } from "./api.js";
import { fill, h } from "./dom.js";
import { clearProblem, showProblem } from "./problems.js";
import { copied, differing } from "./scenario_state.js";
import { t } from "./texts.js";

function field(name, pointer, properties = {}, hint = false) {
  const id = `make-${name}`;
  const input = h("input", { id, name, "data-pointer": pointer, autocomplete: "off", "aria-describedby": hint ? `${id}-hint` : null, ...properties });
  const element = h(
    "div",
    { class: "field" },
    h("label", { for: id }, t(`simulator.make_${name}`)),
    input,
    hint ? h("p", { class: "hint", id: `${id}-hint` }, t(`simulator.make_${name}_hint`)) : null,
  );
  return { element, input, value: () => input.value.trim() };
}

/**
 * A dialog with fields; `send()` makes the thing and answers what is shown instead of the fields,
 * or null where it leads to another page. What is sent twice is made once.
 */
function openDialog(name, fields, send, prefix) {
  const submit = h("button", { type: "submit", class: "primary" }, t(`simulator.make_${name}`));
  const form = h(
    "form",
    { novalidate: true },
    h("h2", { id: "make-title" }, t(`simulator.share_${name}`)),
    h("p", { class: "hint" }, t(`simulator.make_${name}_about`)),
    h("div", { class: "faults", role: "alert", hidden: true }),
    ...fields,
    h("div", { class: "row" }, submit, h("button", { type: "button", onclick: () => dialog.close() }, t("common.cancel"))),
  );
  const dialog = h("dialog", { "aria-labelledby": "make-title", onclose: () => dialog.remove() }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearProblem(form);
    submit.disabled = true;
    try {
      const shown = await send();
      if (shown) {
        fill(form, shown, h("div", { class: "row" }, h("button", { type: "button", onclick: () => dialog.close() }, t("common.close"))));
        form.querySelector("a, button").focus();
      }
    } catch (problem) {
      submit.disabled = false;
      showProblem(problem, { form, prefix });
    }
  });
  document.body.append(dialog);
  dialog.showModal();
}

export function profileDialog(store) {
  const base = store.base.profile;
  const of = store.base.document;
  const slug = field("slug", "/slug", { required: true, value: base ? store.base.slug : "" }, true);
  const name = field("name", "/name", { required: true, value: of?.name ?? "" });
  const gpuType = field("gpu_type", "/gpu_type", { required: true, value: of?.gpu_type ?? store.price.gpu_type ?? "" }, true);
  const center = field("cost_center", "/cost_center", { value: of?.cost_center ?? store.price.cost_center ?? "" });
  openDialog(
    "profile",
    [slug, name, gpuType, center].map((one) => one.element),
    async () => {
      const body = {
        name: name.value(),
        gpu_type: gpuType.value(),
        cost_center: center.value() || null,
        defaults: copied(store.scenario),
      };
      const made = slug.value() === store.base.slug && base ? await revised(slug.value(), { ...body, tags: of.tags }) : await created({ slug: slug.value(), ...body });
      const link = h("a", { href: `/profiles/${made.slug}` }, `${made.slug}@${made.revision}`);
      return h("div", {}, h("h2", { id: "make-title" }, t("simulator.profile_saved")), h("p", {}, link));
    },
    "",
  );
}

async function created(body) {
  return (await create("/v1/cluster-profiles", body)).data;
}

async function revised(slug, body) {
  const path = `/v1/cluster-profiles/${encodeURIComponent(slug)}`;
  const { headers } = await ask("GET", path);
  return (await create(`${path}/revisions`, body, { headers: { "If-Match": headers.get("etag") } })).data;
}

export function batchDialog(store) {
  const isPriced = store.price.mode === "rates";
  const name = field("batch_name", "/name", { required: true });
  const start = field("start", "/axes/0/powers_of_two/start", { type: "number", value: "8" }, true);
  const stop = field("stop", "/axes/0/powers_of_two/stop", { type: "number", value: "131072" }, true);
  const startOn = field("start_on", "/start_on", { type: "date" }, true);
  const currency = field("currency", "/currency", { maxlength: 3, value: isPriced ? store.price.currency : "" }, true);
  openDialog(
    "batch",
    [name.element, h("div", { class: "row" }, start.element, stop.element), startOn.element, currency.element],
    async () => {
      const item = { custom_id: "simulated", name: name.value() };
      if (store.base.profile) {
        item.profile = store.base.profile;
        item.overrides = differing(store.scenario, store.base.defaults);
      } else item.scenario = copied(store.scenario);
      item.axes = [{ path: "num_gpus", powers_of_two: { start: start.input.valueAsNumber || null, stop: stop.input.valueAsNumber || null } }];
      if (isPriced && store.price.gpu_type) {
        item.pricing = { gpu_type: store.price.gpu_type };
        if (store.price.cost_center) item.pricing.cost_center = store.price.cost_center;
      }
      const body = { name: name.value(), items: [item] };
      if (startOn.value()) body.start_on = startOn.value();
      if (currency.value()) body.currency = currency.value().toUpperCase();
      const { data } = await create("/v1/scenario-batches", body);
      location.assign(`/batches/${data.id}`);
      return null;
    },
    "/items/0",
  );
}
