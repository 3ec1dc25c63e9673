// The figures above the pictures. Their elements stay; only their texts change.

import { fill, h } from "./dom.js";
import { NOTHING, count, hours, ms, money, number, percent } from "./format.js";
import { counted, t } from "./texts.js";

/** GPU-hours as the figures say them: whole ones from 100 on. */
export function wholeHours(value) {
  return Math.abs(value ?? 0) >= 100 ? count(value) : hours(value);
}

function figure(name, { isWide = false } = {}) {
  const big = h("p", { class: "big", "data-figure": name }, NOTHING);
  const small = h("p", { class: "small", "data-note": name });
  const label = h("p", { class: "label" }, t(`simulator.${name}`));
  const element = h(
    "div",
    { class: isWide ? "card figure wide" : "card figure", "data-figure-card": name },
    label,
    big,
    small,
  );
  return { element, label, big, small };
}

function bar(name) {
  const filled = h("span", { class: `filled ${name}` });
  const value = h("strong", { "data-figure": name }, NOTHING);
  const element = h(
    "div",
    { class: "gauge" },
    h("span", { class: "gauge-name" }, t(`simulator.${name}`)),
    value,
    h("span", { class: "track", "aria-hidden": "true" }, filled),
  );
  return { element, filled, value };
}

/** Put the figures into `place`: `mean(answer)`, `full(answer)`. */
export function figures(place) {
  const efficiency = figure("efficiency");
  const day = figure("lost_day");
  const window_ = figure("lost_window");
  const cost = figure("cost");
  const spread = figure("spread");
  const [useful, displayed] = [bar("useful"), bar("displayed")];
  const gauges = h(
    "div",
    { class: "card figure gauges" },
    h("p", { class: "label" }, t("simulator.busy")),
    displayed.element,
    useful.element,
    h("p", { class: "small" }, t("simulator.busy_hint")),
  );
  fill(place, efficiency.element, gauges, day.element, window_.element, cost.element, spread.element);
  const quick = [efficiency, { element: gauges }, day, window_, cost];
  // Wider than the card where overlap or staleness beat the ideal: drawn full.
  const wide = (fraction) => `${Math.max(0, Math.min(1, fraction)) * 100}%`;

  return {
    mean({ result, costs, scenario }) {
      efficiency.big.textContent = percent(result.efficiency_fraction);
      const note = result.efficiency_fraction > 1 ? "simulator.efficiency_over" : "simulator.efficiency_note";
      efficiency.small.textContent = t(note, { ideal: ms(result.ideal_step_ms), mean: ms(result.step_mean_ms) });
      for (const [one, fraction] of [
        [useful, result.useful_compute_fraction],
        [displayed, result.displayed_utilization_fraction],
      ]) {
        one.value.textContent = percent(fraction);
        one.filled.style.width = wide(fraction);
      }
      day.big.textContent = wholeHours(result.gpu_hours_lost_per_day);
      const isGain = result.gpu_hours_lost_per_day < 0;
      day.small.textContent = isGain ? t("simulator.gain") : t("simulator.of_available", { hours: wholeHours(result.gpu_hours_available_per_day) });
      window_.big.textContent = wholeHours(result.gpu_hours_lost);
      window_.small.textContent = counted("simulator.of_window", scenario.period_days, number(scenario.period_days), { hours: wholeHours(result.gpu_hours_available) });
      showCost(costs, scenario);
    },
    full({ result, scenario }) {
      const { gpu_hours_lost_p10: low, gpu_hours_lost_p50: middle, gpu_hours_lost_p90: high } = result;
      if (middle === null) {
        noSpread();
        return;
      }
      const isOne = wholeHours(low) === wholeHours(high);
      spread.label.textContent = t(isOne ? "simulator.spread_same" : "simulator.spread");
      spread.big.textContent = isOne ? wholeHours(middle) : t("simulator.from_to", { low: wholeHours(low), high: wholeHours(high) });
      const error = result.gpu_hours_lost_p50_se;
      const same = scenario.failures ? "simulator.spread_none_failures" : "simulator.spread_none";
      const note = isOne ? t(same) : t("simulator.spread_note", { middle: wholeHours(middle) });
      spread.small.textContent = error > 0 ? `${note} ${t("simulator.standard_error", { error: hours(error) })}` : note;
    },
    noSpread,
    /** All are of an older scenario; each until its own answer is there. */
    stale() {
      for (const card of [...quick, spread]) card.element.setAttribute("aria-busy", "true");
    },
    meanCurrent() {
      for (const card of quick) card.element.setAttribute("aria-busy", "false");
    },
    spreadCurrent() {
      spread.element.setAttribute("aria-busy", "false");
    },
  };

  function noSpread() {
    spread.label.textContent = t("simulator.spread");
    spread.big.textContent = NOTHING;
    spread.small.textContent = t("simulator.no_spread");
    spread.element.setAttribute("aria-busy", "false");
  }

  function showCost(costs, scenario) {
    cost.big.textContent = costs?.cost_of_loss ? money(costs.cost_of_loss) : NOTHING;
    const notes = {
      priced: () => counted("simulator.cost_note", scenario.period_days, number(scenario.period_days)),
      no_rate: () => t("simulator.cost_no_rate"),
      partly_priced: () => counted("simulator.cost_partly", costs.unpriced_days, number(costs.unpriced_days)),
      withheld: () => t("common.withheld_hint"),
    };
    cost.small.textContent = costs ? (notes[costs.cost_status]?.() ?? "") : t("simulator.cost_none");
  }
}
