// The simulator: controls, figures and pictures of one scenario, all by the API. A picture that
// cannot be drawn says so, and takes nothing else with it.

import { get, withQuery } from "./api.js";
import { announce, byId, fill, h, settled } from "./dom.js";
import { percent } from "./format.js";
import { clearProblem, showProblem } from "./problems.js";
import { showBounds } from "./scenario_bounds.js";
import { loadPresets } from "./scenario_communication.js";
import { choiceControl } from "./scenario_controls.js";
import { scenarioSections } from "./scenario_sections.js";
import { BLANK, scenarioStore } from "./scenario_store.js";
import { followAddress, profileBase } from "./simulator_address.js";
import { lasting } from "./simulator_away.js";
import { figures, wholeHours } from "./simulator_figures.js";
import { pictures } from "./simulator_pictures.js";
import { presets } from "./simulator_presets.js";
import { priceSection } from "./simulator_price.js";
import { remedies } from "./simulator_remedies.js";
import { simulation } from "./simulator_requests.js";
import { share } from "./simulator_share.js";
import { may } from "./session.js";
import { t } from "./texts.js";

const TOLD_MS = 900;

const form = byId("scenario");
const store = scenarioStore();
const sections = scenarioSections(byId("sections"), store);
const price = priceSection(store);
const numbers = figures(byId("figures"));
const drawn = pictures(store);
const counts = document.documentElement.dataset;
counts.pictured = "0";
counts.completed = "0";

byId("sections").append(price.element);
form.addEventListener("submit", (event) => event.preventDefault());
byId("reset").addEventListener("click", () => {
  store.base = BLANK;
  store.price = { mode: "none" };
  store.replace(BLANK.defaults);
  store.settle();
});

function show(isWhole) {
  sections.show(isWhole);
  price.show();
  base.show();
}

/** After the next frame was painted. */
function painted() {
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
}

const tell = settled((result) => {
  announce(
    t("simulator.told", {
      efficiency: percent(result.efficiency_fraction),
      day: wholeHours(result.gpu_hours_lost_per_day),
      useful: percent(result.useful_compute_fraction),
    }),
  );
}, TOLD_MS);

function showWarnings(warnings) {
  const place = byId("warnings");
  place.hidden = warnings.length === 0;
  // Sentences of the API, which speaks English.
  place.setAttribute("aria-busy", "false");
  fill(place, h("ul", { lang: "en" }, warnings.map((one) => h("li", {}, one.detail))));
}

function showRefusal(problem) {
  if (![400, 422].includes(problem.status)) {
    showProblem(problem);
    return;
  }
  showProblem(problem, { form, prefix: "/scenario", focus: false });
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    const box = field.closest("details");
    if (box) box.open = true;
  }
  byId("refused").textContent = t(counts.pictured === "0" ? "simulator.refused_first" : "simulator.refused");
  byId("refused").hidden = false;
}

const screen = {
  stale() {
    numbers.stale();
    drawn.stale();
    for (const id of ["pinned", "warnings"]) byId(id).setAttribute("aria-busy", "true");
  },
  async mean(answer, turn) {
    clearProblem(form);
    byId("refused").hidden = true;
    store.known = answer.scenario;
    numbers.mean(answer);
    byId("pinned").textContent = t("simulator.pinned", {
      efficiency: percent(answer.result.efficiency_fraction),
      day: wholeHours(answer.result.gpu_hours_lost_per_day),
    });
    if (turn === store.turn) {
      numbers.meanCurrent();
      byId("pinned").setAttribute("aria-busy", "false");
    }
    sections.show();
    await drawn.mean(answer, turn).catch(showProblem);
    tell(answer.result);
    painted().then(() => {
      counts.pictured = String(Number(counts.pictured) + 1);
    });
  },
  async full(answer, turn) {
    numbers.full(answer);
    numbers.spreadCurrent();
    showWarnings(answer.warnings);
    await drawn.full(answer, turn).catch(showProblem);
  },
  curve: (answer, turn) => drawn.curve(answer, turn).catch(showProblem),
  timeline: (answer, turn) => drawn.timeline(answer, turn).catch(showProblem),
  refusedPart(name, problem) {
    drawn.refused(name, problem);
    if (name !== "full") return;
    numbers.noSpread();
    showWarnings([]);
  },
  completed() {
    painted().then(() => {
      counts.completed = String(Number(counts.completed) + 1);
    });
    showBounds(form, store.scenario).catch(showProblem);
  },
  problem: showRefusal,
};

/** The choice of a profile as the base; its figures are then the scenario's. */
const base = (() => {
  let profiles = [];
  let control = null;

  function build() {
    control = choiceControl({
      name: "base",
      label: t("simulator.base"),
      hint: t("simulator.base_hint"),
      options: [["", t("simulator.base_blank")], ...profiles.map((one) => [`${one.slug}@${one.revision}`, `${one.name} (${one.slug}@${one.revision})`])],
      value: () => store.base.profile ?? "",
      choose,
    });
    fill(byId("base"), control.element);
  }
  async function choose(reference) {
    const isNewest = store.claim();
    try {
      const chosen = reference ? await profileBase(reference) : BLANK;
      if (!isNewest()) return;
      store.base = chosen;
      price.match(store.base.document);
      store.replace(store.base.defaults);
      store.settle();
    } catch (problem) {
      if (!isNewest()) return;
      showProblem(problem);
      control.show();
    }
  }
  return {
    async load() {
      if (!(await may("profiles:read"))) return;
      profiles = (await get(withQuery("/v1/cluster-profiles", { page_size: 200 }))).items;
      if (profiles.length === 0) return;
      build();
      control.show();
    },
    show: () => control?.show(),
  };
})();

byId("figures").after(
  h("p", { id: "refused", class: "advice", hidden: true }),
  h("div", { id: "warnings", class: "advice", hidden: true }),
);
store.onChange(({ isShape, isWhole }) => {
  if (isShape) show(isWhole);
});
simulation(store, screen);
presets(store);
remedies(store);
share(store).catch(showProblem);
await followAddress(store, showProblem);
lasting(() => price.load()).catch(showProblem);
lasting(() => base.load()).catch(showProblem);
lasting(() => loadPresets(store))
  .then(() => sections.show())
  .catch(showProblem);
