// What is around every page: theme, language, who is signed in.

import { asked, setAsked } from "./address.js";
import { ask } from "./api.js";
import { sayCarried } from "./carried_word.js";
import { byId, fill, h } from "./dom.js";
import { showProblem } from "./problems.js";
import { isStillThere, session } from "./session.js";
import { t } from "./texts.js";

const THEMES = ["auto", "light", "dark"];

function themed() {
  return document.documentElement.dataset.theme ?? "auto";
}

function showTheme() {
  const button = byId("theme");
  button.textContent = t(`common.theme_${themed()}`);
  button.setAttribute("aria-label", t("common.theme_now", { theme: t(`common.theme_${themed()}`) }));
}

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(themed()) + 1) % THEMES.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("trainard-theme", next);
  } catch {
    // It lasts as long as the page then.
  }
  showTheme();
  document.dispatchEvent(new CustomEvent("themechange"));
}

function keepPlaceInLanguageLinks() {
  for (const link of document.querySelectorAll("[data-language]")) {
    link.addEventListener("click", () => {
      const query = new URLSearchParams(location.search);
      query.set("lang", link.dataset.language);
      link.href = `?${query}${location.hash}`;
    });
  }
}

/** Where the pages do not all have room: the present one is in sight, and an edge with more fades. */
function showMorePages() {
  const list = document.querySelector(".bar nav ul");
  const here = list.querySelector("[aria-current]");
  const fade = () => {
    const most = list.scrollWidth - list.clientWidth;
    list.dataset.more = [list.scrollLeft > 1 ? "before" : "", list.scrollLeft < most - 1 ? "after" : ""].join(" ").trim();
  };
  if (here) list.scrollLeft = here.offsetLeft - list.offsetLeft - (list.clientWidth - here.offsetWidth) / 2;
  list.addEventListener("scroll", fade, { passive: true });
  new ResizeObserver(fade).observe(list);
}

async function showSession() {
  try {
    const who = await session();
    const place = byId("session");
    if (who.is_open) {
      fill(place, h("span", { class: "tag", title: t("common.open_hint") }, t("common.open")));
    } else if (who.signed_in) {
      const out = h("button", { type: "button", class: "quiet", onclick: signOut }, t("common.sign_out"));
      fill(place, h("span", { class: "who", title: `${who.name} (${who.role})` }, who.name), out);
    } else {
      const here = location.pathname + location.search + location.hash;
      const next = location.pathname === "/sign-in" ? "" : `?next=${encodeURIComponent(here)}`;
      fill(place, h("a", { href: `/sign-in${next}` }, t("common.sign_in")));
    }
  } catch (problem) {
    showProblem(problem);
  }
}

async function signOut() {
  try {
    await ask("DELETE", "/v1/session");
    location.assign("/sign-in");
  } catch (problem) {
    showProblem(problem);
  }
}

// A language that was asked for is kept by a cookie: the address need not say it any longer.
if (asked().has("lang")) setAsked({ lang: null });

// Going back may show a page as it was left, with figures for somebody who has signed out since.
addEventListener("pageshow", async (event) => {
  if (event.persisted && !(await isStillThere())) location.reload();
});

byId("theme").addEventListener("click", nextTheme);
showTheme();
showMorePages();
keepPlaceInLanguageLinks();
sayCarried();
showSession();
