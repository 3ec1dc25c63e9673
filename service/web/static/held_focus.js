// Where the keyboard goes when what was pressed has vanished, or was drawn anew.

function isShown(element) {
  return element.isConnected && element.getClientRects().length > 0;
}

function isLost() {
  const at = document.activeElement;
  return at === null || at === document.body || !isShown(at);
}

/**
 * To be asked before something is done with `button`; what it answers is called afterwards. Where
 * the keyboard has lost its place, it goes back to the button, else to its successor (an id), to
 * what stands in its place, to the heading of its section or to that of the page.
 */
export function holdFocus(button, successor = null) {
  const actions = button.closest(".actions");
  const section = button.closest("section");
  const sameAgain = button.id ? `#${CSS.escape(button.id)}` : null;
  return () => {
    if (!isLost()) return;
    const found = [
      button,
      successor ? document.getElementById(successor) : null,
      sameAgain ? document.querySelector(sameAgain) : null,
      actions?.querySelector("button:not([hidden])"),
    ].find((one) => one && isShown(one) && !one.disabled);
    if (found) found.focus();
    else focusHeading(section);
  };
}

/** The heading of a section, or of the page, takes the keyboard. */
export function focusHeading(section = null) {
  const own = section && isShown(section) ? section.querySelector("h2") : null;
  const heading = own ?? document.querySelector("h1");
  heading.tabIndex = -1;
  heading.focus();
}
