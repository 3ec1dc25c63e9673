// Dialogs that make something of the scenario: a profile or a revision of one, a batch.

import { Problem, create } from "./api.js";
import { announce, fill, h } from "./dom.js";
import { clearProblem, showProblem } from "./problems.js";
import { copied, differing } from "./scenario_state.js";
import { baseOf, profileBase } from "./simulator_address.js";
import { t } from "./texts.js";
import { typedNumber } from "./typed_number.js";

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

/** What is typed, or the text itself where it is no number: the API says so at its place. */
function numberIn(input) {
  return typedNumber(input.value) ?? (input.value.trim() || null);
}

/**
 * A dialog with fields; `send()` makes the thing and answers what is shown instead of the fields,
 * or null where it leads to another page. What is sent twice is made once. Where something else was
 * changed meanwhile (412), `stale(close)` is shown above the fields.
 */
function openDialog(name, fields, send, { prefix, stale = null }) {
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
      if (problem.status === 412 && stale) showStale();
      else showProblem(problem, { form, prefix });
    }
  });
  function showStale() {
    const faults = form.querySelector(".faults");
    fill(faults, stale(() => dialog.close(), (problem) => showProblem(problem, { form })));
    faults.hidden = false;
    faults.querySelector("button").focus();
  }
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
      const made = base && slug.value() === store.base.slug ? await revised(store, { ...body, tags: of.tags }) : await created({ slug: slug.value(), ...body });
      const link = h("a", { href: `/profiles/${made.slug}` }, `${made.slug}@${made.revision}`);
      return h("div", {}, h("h2", { id: "make-title" }, t("simulator.profile_saved")), h("p", {}, link));
    },
    { prefix: "", stale: (close, problemOf) => staleBase(store, close, problemOf) },
  );
}

async function created(body) {
  return (await create("/v1/cluster-profiles", body)).data;
}

/** The next revision, of the one that was read: never of a colleague's that this page has not seen. */
async function revised(store, body) {
  const { slug, etag } = store.base;
  if (!etag) throw new Problem(412, {});
  const path = `/v1/cluster-profiles/${encodeURIComponent(slug)}/revisions`;
  const { data, headers } = await create(path, body, { headers: { "If-Match": etag } });
  store.base = baseOf(data, headers.get("etag"));
  store.touched();
  return data;
}

/** What is said then: the reader's own changes can be put on the newest revision. */
function staleBase(store, close, problemOf) {
  const { profile, slug, defaults } = store.base;
  const rebase = async () => {
    try {
      const newest = await profileBase(slug);
      const own = differing(store.scenario, defaults);
      store.base = newest;
      store.replace({ ...newest.defaults, ...own });
      store.settle();
      close();
      announce(t("simulator.base_now", { profile: newest.profile }));
    } catch (problem) {
      problemOf(problem);
    }
  };
  return [
    h("p", {}, h("strong", {}, t("simulator.base_changed", { profile }))),
    h("button", { type: "button", onclick: rebase }, t("simulator.base_reload")),
  ];
}

export function batchDialog(store) {
  const isPriced = store.price.mode === "rates";
  const name = field("batch_name", "/name", { required: true });
  const start = field("start", "/axes/0/powers_of_two/start", { inputmode: "numeric", value: "8" }, true);
  const stop = field("stop", "/axes/0/powers_of_two/stop", { inputmode: "numeric", value: "131072" }, true);
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
      item.axes = [{ path: "num_gpus", powers_of_two: { start: numberIn(start.input), stop: numberIn(stop.input) } }];
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
    { prefix: "/items/0" },
  );
}
