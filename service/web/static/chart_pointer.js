// A pointer over a chart, or the arrow keys in it: what is there is marked and told.

import { hideTip, showTip } from "./chart_tips.js";
import { announce, h } from "./dom.js";

const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

/**
 * Follow what is pointed at in `drawing`. `spots()` answers `{count, at(x, y) → index or null,
 * box(index) → {x, y, width, height}, tip(index) → text}` of what is drawn now, in px of the drawing;
 * a box without width is a line.
 */
export function follow(drawing, spots) {
  const cursor = h("div", { class: "chart-cursor", hidden: true });
  let chosen = null;

  function choose(index, event = null) {
    chosen = index;
    cursor.hidden = index === null;
    if (index === null) return hideTip();
    const now = spots();
    const box = now.box(index);
    cursor.classList.toggle("line", box.width === 0);
    Object.assign(cursor.style, {
      left: `${box.x}px`,
      top: `${box.y}px`,
      width: `${Math.max(1, box.width)}px`,
      height: `${Math.max(1, box.height)}px`,
    });
    drawing.append(cursor);
    const whole = drawing.getBoundingClientRect();
    const x = event?.clientX ?? whole.left + box.x + Math.min(box.width, 180);
    const y = event?.clientY ?? whole.top + box.y + Math.min(box.height, 24);
    return showTip(now.tip(index), x, y);
  }

  function point(event) {
    const whole = drawing.getBoundingClientRect();
    const now = spots();
    choose(now?.count ? now.at(event.clientX - whole.left, event.clientY - whole.top) : null, event);
  }

  function press(event) {
    const now = spots();
    if (!now?.count) return;
    const last = now.count - 1;
    let next = null;
    if (event.key in STEPS) next = chosen === null ? 0 : chosen + STEPS[event.key];
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = last;
    else if (event.key === "Escape") return choose(null);
    if (next === null) return;
    event.preventDefault();
    choose(Math.min(last, Math.max(0, next)));
    announce(now.tip(chosen).replaceAll("\n", ", "));
  }

  const leave = () => choose(null);
  drawing.tabIndex = 0;
  drawing.addEventListener("pointermove", point);
  drawing.addEventListener("pointerdown", point);
  drawing.addEventListener("pointerleave", leave);
  drawing.addEventListener("blur", leave);
  drawing.addEventListener("keydown", press);
  return { forget: leave };
}
