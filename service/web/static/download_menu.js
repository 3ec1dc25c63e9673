// The files of a table, as a menu of links: what is shown, in any format of the API.

import { withQuery } from "./api.js";
import { fill, h } from "./dom.js";
import { t } from "./texts.js";

const FORMATS = ["csv", "jsonl", "parquet", "arrow"];

/** Make a `<details>` such a menu; it closes by Escape, and when one goes on elsewhere. */
export function downloadMenu(details = h("details", { class: "menu" })) {
  const list = h("ul");
  const summary = h("summary", { class: "button" }, t("common.download"));
  fill(details, summary, list);
  details.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !details.open) return;
    details.open = false;
    summary.focus();
  });
  details.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !details.contains(event.relatedTarget)) details.open = false;
  });
  return {
    element: details,
    /** What the links ask for. */
    show(path, query) {
      const link = (format) => h("a", { href: withQuery(path, { ...query, format }), download: "" }, t(`results.format_${format}`));
      fill(list, FORMATS.map((format) => h("li", {}, link(format))));
    },
  };
}
