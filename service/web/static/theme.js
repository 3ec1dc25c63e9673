"use strict";
// Before the first paint, so that no page flashes in the other theme.
(() => {
  const kept = (() => {
    try {
      return localStorage.getItem("trainard-theme");
    } catch {
      return null; // storage may be forbidden
    }
  })();
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
