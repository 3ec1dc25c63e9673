// Where the parts of a line chart go: room for the numbers of its axes, ends of its scales.

import { roundAbove, textWidth } from "./chart_rooms.js";

const FONT = 12;
const TOP = 24;
const BOTTOM = 24;

/**
 * Points in order of x: `{rows: [{x, y, low?, high?}], draws?: [{x, y}], notes?: [{x, text}],
 * ticks: [{x, label}], yLabels, isLog?, isShare?, tip(index)}`. `yLabels` are texts as long as the
 * longest number of the axis; `yFormat`: how it writes them (default:
 * in full, as the page's language groups digits); `isShare`: y is an efficiency, drawn downwards from 1.
 */
export function lines(given, width) {
  const { rows, draws = [], notes = [], ticks, isShare = false } = given;
  const xs = rows.map((row) => row.x);
  const [first, last] = xs.length ? [Math.min(...xs), Math.max(...xs)] : [1, 2];
  const [from, to] = first < last ? [first, last] : [first * 0.5 || -1, first * 2 || 1];
  const ys = [...rows, ...draws].flatMap((row) => [row.y, row.low ?? row.y, row.high ?? row.y]);
  const known = ys.filter((y) => y !== null && y !== undefined);
  const labels = given.yLabels.map((text) => textWidth(text, FONT) + 16);
  const left = Math.ceil(Math.max(...labels));
  const right = 18;
  const plot = Math.max(40, width - left - right);
  const height = width < 480 ? 210 : 250;
  const share = given.isLog ? (x) => Math.log(x / from) / Math.log(to / from) : (x) => (x - from) / (to - from);
  const shown = thinned(ticks, (x) => share(x) * plot, plot, given.isLog);
  return {
    datasets: {
      rows: rows.map(({ x, y }) => ({ x, y })),
      ranges: rows.filter((row) => row.low !== null && row.low !== undefined),
      // A history has none.
      ...(given.draws ? { draws } : {}),
      notes: notes.map((note, key) => ({ ...note, key, align: sideOf(share(note.x)) })),
    },
    width: plot,
    height,
    padding: { left, right, top: TOP, bottom: BOTTOM },
    signals: {
      ...endsOf(known, isShare),
      x_from: from,
      x_to: to,
      x_ticks: shown.map((tick) => tick.x),
      x_labels: shown.map((tick) => tick.label),
      y_format: given.yFormat ?? (isShare ? ".2~%" : ",.12~g"),
      is_share: isShare,
    },
    spots: (view) => {
      const places = xs.map((x) => left + view.scale("x")(x));
      return {
        count: rows.length,
        at: (x) => nearest(places, x),
        box: (index) => ({ x: places[index], y: TOP, width: 0, height }),
        tip: given.tip,
      };
    },
  };
}

function endsOf(ys, isShare) {
  if (!ys.length) return { y_from: isShare ? 1 : 0, y_to: isShare ? 0 : 1 };
  if (isShare) return { y_from: 1, y_to: 1 - Math.min(1, roundAbove(1 - Math.min(...ys))) };
  const [low, high] = [Math.min(0, ...ys), Math.max(0, ...ys)];
  return { y_from: low < 0 ? -roundAbove(-low) : 0, y_to: high > 0 || low === 0 ? roundAbove(high) : 0 };
}

/**
 * Those ticks whose labels do not touch, and the last one; those at the ends stay within the axis. Of
 * powers of two every second, third … one, counted from the last: readers expect equal steps there.
 */
function thinned(ticks, place, plot, isLog) {
  const spanOf = (tick) => {
    const room = textWidth(tick.label, FONT);
    const begin = Math.min(Math.max(place(tick.x) - room / 2, 0), plot - room);
    return { tick, begin, end: begin + room };
  };
  const powers = ticks.map((tick) => Math.log2(tick.x));
  if (isLog && powers.length && powers.every(Number.isInteger)) {
    for (let step = 1; ; step += 1) {
      const even = ticks.filter((_, index) => (powers.at(-1) - powers[index]) % step === 0).map(spanOf);
      if (even.every((span, index) => index === 0 || span.begin >= even[index - 1].end + 8)) return even.map(({ tick }) => tick);
    }
  }
  const shown = [];
  for (const span of ticks.map(spanOf)) {
    if (!shown.length || span.begin >= shown[shown.length - 1].end + 12) shown.push(span);
    else if (span.tick === ticks[ticks.length - 1] && shown.length > 1) shown.splice(-1, 1, span);
  }
  return shown.map(({ tick }) => tick);
}

/** A word stands beside its line on the side where there is room. */
function sideOf(share) {
  return share < 0.25 ? "left" : share > 0.75 ? "right" : "center";
}

function nearest(places, x) {
  let found = null;
  for (let place = 0; place < places.length; place += 1) {
    if (found === null || Math.abs(places[place] - x) < Math.abs(places[found] - x)) found = place;
  }
  return found;
}
