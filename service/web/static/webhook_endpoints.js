// Webhook endpoints: made and changed in a form, tried, rotated, disabled and deleted from their list.

import { asked, setAsked } from "./address.js";
import { ask, create, get, withQuery } from "./api.js";
import { announce, byId, fill, h } from "./dom.js";
import { fieldset, hint } from "./form.js";
import { momentElement } from "./format.js";
import { showProblem } from "./problems.js";
import { reasonElement, reasonNodes } from "./reasons.js";
import { askedOverlap, showSecret } from "./webhook_secrets.js";
import { attempt, confirmed, onSubmit } from "./submit.js";
import { table } from "./table.js";
import { t } from "./texts.js";

const ENDPOINTS = "/v1/webhook-endpoints";
const PARTS = ["name", "url", "include_costs"];

/**
 * `{show()}` reads the address (`new`, `edit`). `changed()`: told when there are others or they are
 * called otherwise; `sent(delivery)`: of a test message; `ofEndpoint(id)`: show its log.
 */
export function webhookEndpoints({ scopes, changed, sent, ofEndpoint }) {
  const mayWrite = scopes.includes("webhooks:write");
  const section = byId("part-endpoint");
  const open = byId("open-new");
  const fields = fieldset(
    [
      { pointer: "/name", kind: "text", required: true },
      { pointer: "/url", kind: "text", required: true, placeholder: "https://hooks.example.org/trainard" },
      ...(scopes.includes("costs:read") ? [{ pointer: "/include_costs", kind: "check" }] : []),
    ].map((one) => ({ ...one, label: t(`deliveries.endpoint_${one.pointer.slice(1)}`), hint: hint(`deliveries.endpoint_${one.pointer.slice(1)}_hint`) })),
  );
  let edited = null;
  let etag = null;

  const columns = [
    { key: "name", label: t("deliveries.endpoint_name"), head: true, cell: (row) => row.name },
    { key: "url", label: t("deliveries.endpoint_url"), cell: urlOf },
    { key: "state", label: t("deliveries.state"), cell: stateOf },
    { key: "costs", label: t("deliveries.costs"), cell: (row) => t(row.include_costs ? "deliveries.with_costs" : "deliveries.without_costs") },
    { key: "actions", label: t("deliveries.actions"), cell: actionsOf },
  ];

  function urlOf(row) {
    return h("div", { class: "told" }, h("code", {}, row.url), reasonElement(row.notice_coded, row.notice));
  }

  function stateOf(row) {
    const tag = h("span", { class: `tag ${row.enabled ? "good" : "bad"}`, "data-enabled": String(row.enabled) }, t(row.enabled ? "deliveries.enabled" : "deliveries.disabled"));
    const why = row.disabled_reason ? h("div", { class: "hint" }, reasonNodes(row.disabled_reason_coded, row.disabled_reason), " · ", momentElement(row.disabled_at)) : null;
    const old = row.old_secrets_end_at.map((one) => h("div", { class: "hint" }, t("deliveries.old_signs_until"), " ", momentElement(one)));
    return h("div", {}, tag, why, old);
  }

  function actionsOf(row) {
    const link = (text, work) => {
      const about = `${t(`deliveries.${text}`)}: ${row.name}`;
      return h("button", { type: "button", class: "link", "aria-label": about, onclick: (event) => work(event.target, row) }, t(`deliveries.${text}`));
    };
    const writes = [link("test", test), link("edit", edit), link("rotate", rotate), link(row.enabled ? "disable" : "enable", toggle), link("delete", remove)];
    return h("div", { class: "acts" }, link("its_log", () => ofEndpoint(row.id)), mayWrite ? writes : null);
  }

  async function test(button, row) {
    await attempt(button, async () => {
      const { data } = await create(`${ENDPOINTS}/${row.id}/test`);
      announce(t("deliveries.test_sent"));
      await sent(data);
    });
  }

  function edit(button, row) {
    setAsked({ new: null, edit: row.id }, { push: true });
    show({ focus: true });
  }

  async function rotate(button, row) {
    const overlap = await askedOverlap(row.name);
    if (overlap === null) return;
    await attempt(button, async () => {
      const { data } = await create(`${ENDPOINTS}/${row.id}/secret-rotation`, { overlap_s: overlap });
      await showSecret(data);
      await list.reload();
    });
  }

  async function toggle(button, row) {
    if (row.enabled && !(await confirmed(t("deliveries.disable_question", { name: row.name }), t("deliveries.disable")))) return;
    await change(button, row.id, { enabled: !row.enabled }, t(row.enabled ? "deliveries.was_disabled" : "deliveries.was_enabled"));
  }

  async function change(button, id, body, sentence) {
    await attempt(button, async () => {
      const { headers } = await ask("GET", `${ENDPOINTS}/${id}`);
      await ask("PATCH", `${ENDPOINTS}/${id}`, { body, headers: { "If-Match": headers.get("etag") } });
      announce(sentence);
      await Promise.all([list.reload(), changed()]);
    });
  }

  async function remove(button, row) {
    if (!(await confirmed(t("deliveries.delete_question", { name: row.name }), t("common.delete")))) return;
    await attempt(button, async () => {
      const { headers } = await ask("GET", `${ENDPOINTS}/${row.id}`);
      await ask("DELETE", `${ENDPOINTS}/${row.id}`, { headers: { "If-Match": headers.get("etag") } });
      await Promise.all([list.reload(), changed()]);
      announce(t("common.was_deleted", { name: row.name }));
      byId("endpoints-title").focus();
    });
  }

  /** The form, as the address says: a new one, one that is changed, or none. */
  async function show({ focus = false } = {}) {
    const id = asked().get("edit");
    section.hidden = !mayWrite || !(id || asked().has("new"));
    open.setAttribute("aria-expanded", String(!section.hidden && !id));
    if (section.hidden) {
      edited = null;
      return;
    }
    try {
      if (id && edited?.id !== id) {
        const answer = await ask("GET", `${ENDPOINTS}/${encodeURIComponent(id)}`);
        edited = answer.data;
        etag = answer.headers.get("etag");
        fields.show(edited);
      } else if (!id && edited) {
        edited = null;
        fields.show({});
      }
    } catch (problem) {
      section.hidden = true;
      showProblem(problem);
      return;
    }
    byId("endpoint-title").textContent = id ? t("deliveries.edit_title", { name: edited.name }) : t("deliveries.new");
    byId("endpoint-send").textContent = id ? t("common.save") : t("deliveries.create");
    if (focus) section.querySelector("input").focus();
  }

  function close() {
    setAsked({ new: null, edit: null });
    show();
    (open.hidden ? byId("endpoints-title") : open).focus();
  }

  fill(byId("endpoint-fields"), fields.element);
  byId("endpoints-title").tabIndex = -1;
  open.hidden = !mayWrite;
  open.addEventListener("click", () => {
    setAsked({ new: section.hidden || edited ? "yes" : null, edit: null }, { push: true });
    show({ focus: true });
  });
  byId("endpoint-close").addEventListener("click", close);
  onSubmit(byId("endpoint-form"), async () => {
    const wanted = fields.read();
    if (edited) {
      const body = Object.fromEntries(PARTS.filter((key) => key in wanted && wanted[key] !== edited[key]).map((key) => [key, wanted[key]]));
      await ask("PATCH", `${ENDPOINTS}/${edited.id}`, { body, headers: { "If-Match": etag } });
      announce(t("deliveries.saved"));
    } else {
      const { data } = await create(ENDPOINTS, wanted);
      fields.show({});
      await showSecret(data);
    }
    close();
    await Promise.all([list.reload(), changed()]);
  });

  const list = table(byId("endpoints"), {
    columns,
    caption: t("deliveries.endpoints_caption"),
    empty: t("deliveries.no_endpoints"),
    pageSize: 25,
    load: ({ pageToken, pageSize, signal }) => get(withQuery(ENDPOINTS, { page_size: pageSize, page_token: pageToken }), { signal }),
  });
  return { show, reload: () => list.reload({ quiet: true }) };
}
