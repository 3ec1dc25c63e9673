// Where the parts of a chart go, by the width there is: rooms for its texts, heights of its rows.
//
// A layout answers `{datasets, width, height?, padding, signals, spots(view)}`: rows and signals of
// the chart's definition, and what a pointer finds where (chart_pointer.js).

import { lines } from "./chart_line_layout.js";
import { roomFor } from "./chart_rooms.js";

const GAP = 10;
// Rows thinner than this are drawn as one shape a kind.
const THIN = 5;
// So high is the slowest of thin rows.
const FIRST = 12;
const TOP = 26;

/**
 * Rows of bars: `[{label, start, end, text, tone, low?, high?, tip?}]`, in their order. Where there
 * is little room labels stand above their bars.
 */
function bars({ isConnected = false, isPaired = false } = {}) {
  return (given, width) => {
    // A pair has an empty row after it.
    const slot = isPaired ? (place) => place + Math.floor(place / 2) : (place) => place;
    const rows = given.map((row, place) => ({
      ...row,
      row: slot(place),
      ...(isConnected && place + 1 < given.length ? { next: place + 1 } : {}),
    }));
    const isNarrow = width < 560 && !isPaired;
    const font = width < 560 ? 12.5 : 13;
    const textRoom = roomFor(rows.map((row) => row.text), font, width * (isNarrow ? 0.5 : 0.32));
    const labels = rows.map((row) => row.label);
    const labelRoom = isNarrow ? width : roomFor(labels, font, width * 0.36);
    const left = isNarrow ? 1 : labelRoom + GAP;
    const right = textRoom + GAP + 2;
    const top = isNarrow ? 20 : 2;
    const step = isPaired ? 16 : isNarrow ? 42 : 28;
    return {
      datasets: { rows: isPaired ? [...rows, ...gapsOf(rows)] : rows },
      width: Math.max(40, width - left - right),
      padding: { left, right, top, bottom: 2 },
      signals: {
        font,
        label_room: labelRoom,
        text_room: textRoom,
        is_narrow: isNarrow,
        from: least(rows),
        to: most(rows),
        y_step: step,
      },
      spots: () => ({
        count: rows.length,
        at(x, y) {
          const found = rowAt(y - (isNarrow ? 0 : top), step, slot(rows.length));
          if (found === null || !isPaired) return found;
          return found % 3 === 2 ? null : Math.min(rows.length - 1, Math.floor(found / 3) * 2 + (found % 3));
        },
        box: (row) => ({ x: 0, y: (isNarrow ? 0 : top) + rows[row].row * step, width, height: step }),
        tip: (row) => rows[row].tip ?? `${rows[row].label}\n${rows[row].text}`,
      }),
    };
  };
}

function gapsOf(rows) {
  const blank = { label: "", text: "", tone: "past", start: 0, end: 0 };
  return rows.slice(1, -1).filter((row) => row.row % 3 === 1).map((row) => ({ ...blank, row: row.row + 1 }));
}

function rowAt(y, step, number) {
  const row = Math.floor(y / step);
  return row >= 0 && row < number ? row : null;
}

// Where the scale begins and ends: at zero, unless something lies beyond it.
function least(rows) {
  return rows.reduce((found, row) => Math.min(found, row.start, row.end, row.low ?? 0), 0);
}

function most(rows) {
  const found = rows.reduce((far, row) => Math.max(far, row.start, row.end, row.high ?? 0), 0);
  return found > 0 ? found : least(rows) < 0 ? 0 : 1;
}

/** Where rows are: of thin ones the first, if it is marked, is high enough to be seen. */
function rowPlaces(numRows, rowHeight, isMarked) {
  const first = rowHeight < THIN && isMarked ? FIRST : rowHeight;
  return {
    height: Math.max(1, Math.round(first + (numRows - 1) * rowHeight)),
    top: (row) => (row === 0 ? 0 : first + (row - 1) * rowHeight),
    size: (row) => (row === 0 ? first : rowHeight),
    at(y) {
      if (y < 0) return null;
      return y < first ? 0 : rowAt(y - first + rowHeight, rowHeight, numRows);
    },
  };
}

/**
 * Rows over time: `{numRows, rowHeight, begin?, end, rows: [{row, label, text, is_marked}], segments:
 * [{row, kind, start, end, key}], marked?: [{row, start, end}], names?: [{row, middle, name, key}],
 * bySegment?, tip(index)}`. Rows are numbered from 0; a thin one needs no label. What is pointed at is
 * a row, or with `bySegment` a segment.
 */
function timeline(given, width) {
  const { numRows, rowHeight, begin = 0, end, rows, segments, marked = [], names = [] } = given;
  const isThin = rowHeight < THIN;
  const font = isThin ? 12 : Math.min(13, Math.max(10.5, rowHeight * 0.62));
  const inset = isThin ? 0 : 0.11 * rowHeight;
  const labelRoom = roomFor(rows.map((row) => row.label), font, width * 0.32);
  const textRoom = roomFor(rows.map((row) => row.text), font, width * 0.4);
  const left = labelRoom + GAP;
  const right = textRoom ? textRoom + GAP + 2 : 8;
  const plot = Math.max(40, width - left - right);
  const places = rowPlaces(numRows, rowHeight, marked.length > 0);
  const place = (time) => left + ((time - begin) / (end - begin)) * plot;
  const middle = (row) => places.top(row) + places.size(row) / 2;
  const placed = (one, gap) => {
    const top = places.top(one.row);
    return { ...one, top: top + gap, bottom: top + places.size(one.row) - gap };
  };
  const isApart = (one) => !isThin || marked.some((row) => row.row === one.row);
  return {
    datasets: {
      rows: rows.map((row) => ({ ...row, key: row.row, row: middle(row.row) })),
      segments: segments.filter((one) => one.end > one.start && isApart(one)).map((one) => placed(one, inset)),
      bands: isThin ? bandsOf(segments.filter((one) => !isApart(one)), plot / (end - begin), places.top) : [],
      marked: marked.map((one) => placed(one, 0)),
      names: names.map((one) => ({ ...one, row: middle(one.row) })),
    },
    width: plot,
    height: places.height,
    padding: { left, right, top: TOP, bottom: 6 },
    signals: { font, label_room: labelRoom, text_room: textRoom, row_height: rowHeight, begin, end },
    spots: () => ({
      count: given.bySegment ? segments.length : numRows,
      at(x, y) {
        const row = places.at(y - TOP);
        if (row === null || !given.bySegment) return row;
        const time = begin + ((x - left) / plot) * (end - begin);
        const found = segments.findIndex((one) => one.row === row && one.start <= time && time < one.end);
        return found < 0 ? null : found;
      },
      box(index) {
        const row = given.bySegment ? segments[index].row : index;
        const [y, height] = [TOP + places.top(row), places.size(row)];
        if (!given.bySegment) return { x: 0, y, width, height };
        const { start, end: until } = segments[index];
        const [from, to] = [Math.max(left, place(start)), Math.min(left + plot, place(until))];
        return { x: from, y, width: Math.max(1, to - from), height };
      },
      tip: given.tip,
    }),
  };
}

/**
 * Each kind as one outline: a point at the top of each row that begins or ends elsewhere than the one
 * before by more than a third of a pixel, and a last one below all rows.
 */
function bandsOf(segments, pxPerMs, top) {
  const bands = [];
  const lasts = new Map();
  const far = 0.33 / pxPerMs;
  for (const { row, kind, start, end } of segments) {
    const last = lasts.get(kind);
    if (last && Math.abs(last.start - start) < far && Math.abs(last.end - end) < far) {
      last.row = top(row + 1);
      continue;
    }
    bands.push({ row: top(row), kind, start, end });
    lasts.set(kind, { row: top(row + 1), kind, start, end });
  }
  return [...bands, ...lasts.values()];
}

export const LAYOUTS = {
  bars: bars(),
  waterfall: bars({ isConnected: true }),
  pairs: bars({ isPaired: true }),
  gpu_timeline: timeline,
  pipeline_timeline: timeline,
  loss_curve: lines,
  history: lines,
};
