// One result, explained: what was asked, what it is, what it costs, and how to get it again.

import { get } from "./api.js";
import { columnsOf } from "./columns.js";
import { byId, fill, h } from "./dom.js";
import { showProblem } from "./problems.js";
import { allFigures, askedFor, headFigures, moneySection, origin, reproduction } from "./result_sections.js";
import { simulatorLink } from "./scenario_link.js";
import { t } from "./texts.js";
import { waterfall } from "./waterfall.js";

const id = decodeURIComponent(location.pathname.split("/").at(-1));

async function show() {
  const [found, outputs] = await Promise.all([get(`/v1/results/${encodeURIComponent(id)}`), columnsOf()]);
  const { result, provenance } = found;
  const columns = new Map(outputs.map((column) => [column.name, column]));
  byId("result-name").textContent = result.name;
  document.title = `${result.name} · Trainard`;
  byId("trail").append(" / ", h("a", { href: `/batches/${result.batch_id}` }, result.batch_name));
  fill(
    byId("result-actions"),
    h("a", { class: "button primary", href: simulatorLink(provenance.scenario) }, t("results.open_in_simulator")),
  );
  const chart = h("div", { class: "chart" });
  const losses = h(
    "section",
    { class: "card", "aria-labelledby": "losses" },
    h("h2", { id: "losses" }, t("results.losses")),
    chart,
  );
  fill(
    byId("result"),
    headFigures(found, columns),
    losses,
    h("div", { class: "pair" }, askedFor(found), h("div", {}, origin(found, columns), await moneySection(found))),
    await reproduction(found),
    allFigures(found, columns),
  );
  waterfall(chart, result.result);
}

show().catch((problem) => {
  fill(byId("result"));
  showProblem(problem);
});
