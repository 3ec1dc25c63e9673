// How long everything is kept, and what would go now. Nothing is deleted to find out.

import { get } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { count, momentElement, NOTHING, number } from "./format.js";
import { showProblem } from "./problems.js";
import { may } from "./session.js";
import { counted, has, named, t } from "./texts.js";

const SCOPE = "audit:read";
const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];

function keptFor(days) {
  if (days === null) return t("retention.own_time");
  return days === 0 ? t("retention.for_ever") : counted("retention.days", days, count(days));
}

function ruleOf({ kept, rule, setting }) {
  const said = has(`retention.rule_${kept}`) ? h("span", {}, t(`retention.rule_${kept}`)) : h("span", { lang: "en" }, rule);
  return h("div", {}, said, setting ? h("div", { class: "hint" }, h("code", {}, setting)) : null);
}

function goesNow({ expired, of_schedules, needed }) {
  const more = [
    of_schedules ? counted("retention.of_schedules", of_schedules, count(of_schedules)) : null,
    needed ? counted("retention.needed", needed, count(needed)) : null,
  ].filter(Boolean);
  return h("div", {}, count(expired), more.map((text) => h("div", { class: "hint" }, text)));
}

function size(bytes) {
  if (!bytes) return NOTHING;
  const place = Math.min(Math.floor(Math.log10(bytes) / 3), UNITS.length - 1);
  return number(bytes / 1000 ** place, { style: "unit", unit: UNITS[place], maximumSignificantDigits: 3 });
}

function rowOf(policy) {
  return h(
    "tr",
    { "data-kept": policy.kept },
    h("th", { scope: "row" }, named("retention.kept_", policy.kept)),
    h("td", {}, keptFor(policy.days)),
    h("td", { class: "num" }, goesNow(policy)),
    h("td", { class: "num" }, size(policy.expired_bytes)),
    h("td", {}, policy.oldest_at ? momentElement(policy.oldest_at) : NOTHING),
    h("td", {}, ruleOf(policy)),
  );
}

function policyTable(policies) {
  const heads = ["what", "how_long", "goes_now", "size", "oldest", "rule"];
  const numbers = ["goes_now", "size"];
  const head = heads.map((key) => h("th", { scope: "col", class: numbers.includes(key) ? "num" : null }, t(`retention.head_${key}`)));
  const whole = h("table", {}, h("caption", {}, t("retention.caption")), h("thead", {}, h("tr", {}, head)), h("tbody", {}, policies.map(rowOf)));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("retention.caption") }, whole);
}

async function show() {
  if (!(await may(SCOPE))) {
    fill(byId("permission"), h("p", { class: "hint" }, t("retention.not_permitted", { scope: SCOPE })));
    byId("permission").hidden = false;
    return;
  }
  const found = await get("/v1/retention");
  fill(byId("as-of"), t("retention.as_of"), " ", momentElement(found.as_of));
  fill(byId("policies"), policyTable(found.policies));
  byId("policies-part").hidden = false;
}

show().catch(showProblem);
