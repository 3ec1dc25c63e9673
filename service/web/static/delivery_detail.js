// One delivery: to whom, why, each attempt with its answer, and what it holds or has written.

import { get } from "./api.js";
import { deliveryActions } from "./delivery_actions.js";
import { deliveryState, isMoving, targetText } from "./delivery_words.js";
import { byId, fill, h } from "./dom.js";
import { count, exact, momentElement, NOTHING } from "./format.js";
import { showProblem } from "./problems.js";
import { reasonNodes } from "./reasons.js";
import { named, t } from "./texts.js";

const LOOK_MS = 1500;
const PRESSED = "a[href], button, summary, pre";

/**
 * `{show(id, {focus})}`: null hides it; it looks again while something may become of the delivery.
 * `endpoints()`: names by id; `changed()`: told when its state has moved.
 */
export function deliveryDetail({ scopes, endpoints, changed }) {
  const section = byId("delivery");
  const place = byId("delivery-content");
  let wanted = null;
  let state = null;
  let drawn = null;
  let timer = null;

  async function show(id, { focus = false } = {}) {
    clearTimeout(timer);
    if (id !== wanted) {
      state = null;
      drawn = null;
      fill(place);
    }
    wanted = id;
    section.hidden = !id;
    if (!id) return;
    try {
      const found = await get(`/v1/deliveries/${encodeURIComponent(id)}`);
      if (id !== wanted) return;
      draw(found);
      if (focus) byId("delivery-title").focus();
    } catch (problem) {
      if (id !== wanted) return;
      fill(place);
      section.hidden = true;
      showProblem(problem);
    }
  }

  function draw(found) {
    if (state !== null && state !== found.state) changed();
    state = found.state;
    const now = JSON.stringify(found);
    if (now !== drawn) {
      drawn = now;
      redraw(found);
    }
    if (isMoving(found)) timer = setTimeout(() => show(found.id), LOOK_MS);
  }

  /** What is open stays open, and the keyboard where it was. */
  function redraw(found) {
    const isOpen = place.querySelector("details")?.open ?? false;
    const held = [...place.querySelectorAll(PRESSED)].indexOf(document.activeElement);
    fill(place, facts(found), attempts(found), files(found), payload(found));
    const details = place.querySelector("details");
    if (details) details.open = isOpen;
    if (held >= 0) (place.querySelectorAll(PRESSED)[held] ?? byId("delivery-title")).focus({ preventScroll: true });
  }

  function facts(found) {
    const about = targetText(found, endpoints());
    const actions = deliveryActions(found, {
      scopes,
      named: about,
      changed: async () => {
        changed();
        await show(found.id, { focus: true });
      },
    });
    const refused = Object.entries(found.recipients_refused);
    const lines = [
      ["state", h("span", { class: "acts" }, deliveryState(found.state), actions)],
      ["kind", `${named("deliveries.kind_", found.kind)} · ${named("deliveries.event_", found.event.replaceAll(".", "_"))}`],
      ["to", about],
      ["reason", found.reason === null ? withheld() : h("span", {}, reasonNodes(found.reason_coded, found.reason))],
      found.schedule ? ["schedule", h("a", { href: `/schedules/${found.schedule}` }, found.schedule)] : null,
      found.report_id ? ["report", h("a", { href: `/reports/${found.report_id}` }, t("deliveries.open_report"))] : null,
      ["costs", t(found.includes_costs ? "deliveries.with_costs" : "deliveries.without_costs")],
      ["created_at", momentElement(found.created_at)],
      found.next_attempt_at && found.state === "pending" ? ["next_attempt", momentElement(found.next_attempt_at)] : null,
      found.ended_at ? ["ended_at", momentElement(found.ended_at)] : null,
      found.recipients_reached.length ? ["reached", found.recipients_reached.join(", ")] : null,
      refused.length ? ["refused", h("ul", {}, refused.map(([address, why]) => h("li", {}, `${address}: `, h("span", { lang: "en" }, why))))] : null,
      ["message_id", h("code", {}, found.message_id)],
    ].filter(Boolean);
    return h("dl", { class: "facts" }, lines.flatMap(([key, value]) => [h("dt", {}, t(`deliveries.${key}`)), h("dd", {}, value)]));
  }

  function withheld() {
    return h("span", { class: "quiet", title: t("common.withheld_hint") }, t("common.withheld"));
  }

  function attempts(found) {
    if (!found.attempt_log.length) return h("p", { class: "hint" }, found.attempts === null ? withheld() : t("deliveries.no_attempts"));
    const heads = ["attempt", "when", "took", "status", "told"];
    const rows = [...found.attempt_log].reverse().map((one) =>
      h(
        "tr",
        {},
        h("th", { scope: "row", class: "num" }, exact(one.attempt)),
        h("td", {}, momentElement(one.started_at)),
        h("td", { class: "num" }, `${count(one.duration_ms)} ms`),
        h("td", { class: "num" }, one.status === null ? NOTHING : String(one.status)),
        h("td", { class: "told" }, one.error ? reasonNodes(one.error_coded, one.error) : t("deliveries.taken"), one.answer ? h("div", {}, h("code", {}, one.answer)) : null),
      ),
    );
    return [h("h3", {}, t("deliveries.attempts")), tableOf(t("deliveries.attempts"), heads, rows)];
  }

  function files(found) {
    if (!found.files.length) return null;
    const rows = found.files.map((one) =>
      h(
        "tr",
        {},
        h("th", { scope: "row", class: "target" }, one.name),
        h("td", { class: "num" }, one.bytes === null ? withheld() : count(one.bytes)),
        h("td", { class: "target" }, one.sha256 === null ? withheld() : h("code", {}, one.sha256)),
      ),
    );
    const until = found.files_expire_at ? h("p", { class: "hint" }, t("deliveries.files_until"), " ", momentElement(found.files_expire_at)) : null;
    return [h("h3", {}, t("deliveries.files")), tableOf(t("deliveries.files"), ["file", "bytes", "sha256"], rows), until];
  }

  function payload(found) {
    if (found.kind !== "webhook") return null;
    if (found.payload === null) return h("p", { class: "hint" }, t("deliveries.payload"), ": ", withheld());
    const text = JSON.stringify(found.payload, null, 2);
    return h("details", {}, h("summary", {}, t("deliveries.payload")), h("pre", { tabindex: "0", role: "region", "aria-label": t("deliveries.payload") }, text));
  }

  function tableOf(name, heads, rows) {
    const numbers = ["attempt", "took", "status", "bytes"];
    const head = heads.map((key) => h("th", { scope: "col", class: numbers.includes(key) ? "num" : null }, t(`deliveries.head_${key}`)));
    const content = h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("common.table_of", { name }) }, content);
  }

  return { show };
}
