// Where the parts of a chart go, by the width there is: rooms for its texts, heights of its rows.
//
// Texts are measured as they will be drawn; what is still too long is cut by the renderer.

const GAP = 10;
const FAMILY = "system-ui, sans-serif";
const context = document.createElement("canvas").getContext("2d");
const widths = new Map();
const MOST_KEPT = 5000;

function textWidth(text, font) {
  const key = `${font} ${text}`;
  const known = widths.get(key);
  if (known !== undefined) return known;
  if (widths.size > MOST_KEPT) widths.clear();
  context.font = `600 ${font}px ${FAMILY}`;
  const found = context.measureText(text).width;
  widths.set(key, found);
  return found;
}

/** The room that the texts want, within a share of the whole. */
function roomFor(texts, font, most) {
  let widest = 0;
  for (const text of texts) if (text) widest = Math.max(widest, textWidth(text, font));
  return Math.ceil(Math.min(widest, most));
}

// Where the scale begins and ends: at zero, unless something lies beyond it.
function least(rows) {
  return rows.reduce((found, row) => Math.min(found, row.start, row.end, row.low ?? 0), 0);
}

function most(rows) {
  const found = rows.reduce((most, row) => Math.max(most, row.start, row.end, row.high ?? 0), 0);
  return found > 0 ? found : least(rows) < 0 ? 0 : 1;
}

/**
 * Rows of bars: `[{label, start, end, text, tone, low?, high?, tip?}]`, in their order. Where there
 * is little room labels stand above their bars.
 */
function bars({ isConnected = false, isPaired = false } = {}) {
  return (given, width) => {
    const rows = given.map((row, place) => ({
      ...row,
      row: place,
      ...(isConnected && place + 1 < given.length ? { next: place + 1 } : {}),
    }));
    const isNarrow = width < 560 && !isPaired;
    const font = width < 560 ? 12.5 : 13;
    const textRoom = roomFor(rows.map((row) => row.text), font, width * (isNarrow ? 0.5 : 0.32));
    const labels = rows.map((row) => row.label);
    const labelRoom = isNarrow ? width : roomFor(labels, font, width * 0.36);
    const left = isNarrow ? 1 : labelRoom + GAP;
    const right = textRoom + GAP + 2;
    return {
      datasets: { rows },
      width: Math.max(40, width - left - right),
      padding: { left, right, top: isNarrow ? 14 : 2, bottom: 2 },
      signals: {
        font,
        label_room: labelRoom,
        text_room: textRoom,
        is_narrow: isNarrow,
        from: least(rows),
        to: most(rows),
        y_step: isPaired ? 18 : isNarrow ? 42 : 28,
      },
    };
  };
}

/**
 * Rows over time: `{numRows, rowHeight, end, rows: [{row, label, text, is_marked}], segments:
 * [{row, kind, start, end, key, tip}], marked: [{row, start, end}], names: [{row, middle, name, key}]}`.
 * Rows are numbered from 0; what is given of a row may be left out where rows are thin.
 */
function timeline(given, width) {
  const { numRows, rowHeight, end, rows, segments, marked = [], names = [] } = given;
  const font = Math.min(13, Math.max(10.5, rowHeight * 0.62));
  const inset = rowHeight >= 8 ? 0.11 : 0;
  const labelRoom = roomFor(rows.map((row) => row.label), font, width * 0.3);
  const textRoom = roomFor(rows.map((row) => row.text), font, width * 0.36);
  const left = labelRoom + GAP;
  const right = textRoom ? textRoom + GAP + 2 : 6;
  return {
    datasets: {
      rows: rows.map((row) => ({ ...row, key: row.row, row: row.row + 0.5 })),
      segments: segments.map((one) => ({ ...one, top: one.row + inset, bottom: one.row + 1 - inset })),
      marked: marked.map((one) => ({ ...one, top: one.row, bottom: one.row + 1 })),
      names: names.map((one) => ({ ...one, row: one.row + 0.5 })),
    },
    width: Math.max(40, width - left - right),
    height: Math.max(1, Math.round(numRows * rowHeight)),
    padding: { left, right, top: 26, bottom: 3 },
    signals: { font, label_room: labelRoom, text_room: textRoom, num_rows: numRows, end },
  };
}

export const LAYOUTS = {
  bars: bars(),
  waterfall: bars({ isConnected: true }),
  pairs: bars({ isPaired: true }),
  gpu_timeline: timeline,
  pipeline_timeline: timeline,
};
