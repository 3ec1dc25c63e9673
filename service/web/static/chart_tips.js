// What a mark of a chart says to a pointer or to the arrow keys: text only, in one element.

import { fill, h } from "./dom.js";

let tip = null;

/** Show lines of text at a place of the window; the first is the heading. */
export function showTip(text, x, y) {
  if (!text) return hideTip();
  tip ??= document.body.appendChild(h("div", { class: "chart-tip", "aria-hidden": "true" }));
  const [first, ...others] = String(text).split("\n");
  fill(tip, h("strong", {}, first), others.map((line) => h("span", {}, line)));
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  const left = x + 14 + width > window.innerWidth - 8 ? x - 14 - width : x + 14;
  const top = y + 14 + height > window.innerHeight - 8 ? y - 14 - height : y + 14;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

export function hideTip() {
  if (tip) tip.hidden = true;
}
