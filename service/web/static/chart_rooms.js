// How much room the texts of a chart want, measured as they will be drawn.

const FAMILY = "system-ui, sans-serif";
const MOST_KEPT = 5000;
const context = document.createElement("canvas").getContext("2d");
const widths = new Map();

export function textWidth(text, font) {
  const key = `${font} ${text}`;
  const known = widths.get(key);
  if (known !== undefined) return known;
  if (widths.size > MOST_KEPT) widths.clear();
  context.font = `600 ${font}px ${FAMILY}`;
  const found = context.measureText(text).width;
  widths.set(key, found);
  return found;
}

/** Of the widest, but no more than `most`: what is longer is cut by the renderer. */
export function roomFor(texts, font, most) {
  let widest = 0;
  for (const text of texts) if (text) widest = Math.max(widest, textWidth(text, font));
  return Math.ceil(Math.min(widest, most));
}

/** A round number at or beyond the value, of which five make an axis: 1, 2, 2.5, 5 times ten to some power. */
export function roundAbove(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value / 5));
  const step = [1, 2, 2.5, 5, 10].find((one) => one * size * 5 >= value * (1 - 1e-12)) * size;
  return Math.ceil(value / step - 1e-12) * step;
}
