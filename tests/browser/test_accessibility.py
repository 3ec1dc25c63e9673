"""Every page for every reader: axe-core finds nothing, nothing needs a mouse or a wide screen."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from service.web.pages import PAGES
from tests.browser.conftest import guarded_page
from tests.browser.seeded import Seeded

pytestmark = pytest.mark.browser
TAGS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
DESK: Final[ViewportSize] = {"width": 1280, "height": 1000}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}
NARROWEST: Final[ViewportSize] = {"width": 360, "height": 740}
# The report in its frame is a document of its own, which runs no script.
OPTIONS: Final[dict[str, Any]] = {"resultTypes": ["violations"], "iframes": False}
# Moments that do not say whose clock they are of
ZONELESS: Final = """[...document.querySelectorAll("main time")]
  .filter((one) => !one.dateTime || !/ \\(UTC([+\u2212]\\d\\d:\\d\\d)?\\)$/.test(one.textContent))
  .map((one) => one.outerHTML)"""
CONTROLS: Final = (
    "a[href], button, input, select, textarea, summary, [tabindex='0'], [contenteditable=true]"
)


def address(name: str, seeded: Seeded) -> str:
    """Where the page shows most of what it can."""
    both = f"baseline={seeded.sizing}&candidate={seeded.eviction}"
    return {
        "batch": f"/batches/{seeded.sizing}",
        "result": f"/results/{seeded.sizing}.3",
        "compare": f"/compare?{both}",
        "history": "/history?scenario=one%20slow%20GPU",
        "profiles": "/profiles?new=yes",
        "calibrations": "/calibrations?new=yes&of=prod-h100",
        "calibration": f"/calibrations/{seeded.calibration}",
        "back_tests": f"/back-tests?new=yes&profile=prod-h100&test={seeded.back_test}",
        "profile": "/profiles/prod-h100?edit=yes",
        "rates": "/rates?new=yes&price_gpu_type=H100-SXM&price_currency=EUR",
        "schedules": "/schedules?new=yes",
        "schedule": "/schedules/nightly?edit=yes&after=2027-10-20",
        "reports": f"/reports?new=yes&{both}",
        "report": f"/reports/{seeded.report}",
        "deliveries": "/deliveries?new=yes",
        # Alike for all fields: some of each section are enough
        "inputs": "/inputs?find=ms",
        "sign_in": "/sign-in",
    }.get(name, "/" if name == "simulator" else f"/{name}")


@cache
def axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


def violations(page: Page, **options: Any) -> list[str]:
    """What axe-core objects to, a line for each element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe())
    found = page.evaluate("options => axe.run(document, options)", {**OPTIONS, **options})
    return [
        f"{violation['id']}: {' '.join(map(str, node['target']))} ({violation['help']})"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]


def open_page(page: Page, url: str) -> None:
    page.goto(url)
    page.wait_for_load_state("networkidle")
    expect(page.locator("main [aria-busy='true']:visible")).to_have_count(0)


@pytest.fixture(scope="module")
def shared(browser: Browser, seeded_url: str) -> Iterator[Page]:
    """One page for all, so that modules and charts are loaded once."""
    with guarded_page(browser, seeded_url) as opened:
        yield opened


@pytest.mark.parametrize("name", [page.name for page in PAGES])
def test_axe_finds_nothing_and_no_page_is_wider_than_its_screen(
    shared: Page, seeded: Seeded, name: str
) -> None:
    shared.emulate_media(color_scheme="light", reduced_motion="reduce")
    shared.set_viewport_size(DESK)
    open_page(shared, seeded.url + address(name, seeded))
    expect(shared.locator("h1")).to_have_count(1)
    assert shared.evaluate(ZONELESS) == []
    found = violations(shared, runOnly={"type": "tag", "values": TAGS})
    # Colours are others in the dark, and sizes on a phone; all else is as it was.
    shared.emulate_media(color_scheme="dark")
    shared.set_viewport_size(PHONE)
    rules = ["color-contrast", "target-size", "scrollable-region-focusable"]
    found += violations(shared, runOnly={"type": "rule", "values": rules})
    assert found == []
    shared.set_viewport_size(NARROWEST)
    assert shared.evaluate("document.documentElement.scrollWidth") <= NARROWEST["width"]


def test_all_controls_of_the_simulator_are_reached_by_the_keyboard(
    seeded_page: Page, seeded_url: str
) -> None:
    open_page(seeded_page, f"{seeded_url}/")
    wanted = seeded_page.evaluate(
        """selector => {
          const shown = [...document.querySelectorAll(selector)].filter((one) =>
            one.checkVisibility({visibilityProperty: true}) && !one.disabled
            && one.tabIndex >= 0 && !(one.type === "radio" && !one.checked));
          shown.forEach((one, place) => { one.dataset.place = place; });
          document.body.tabIndex = -1;
          document.body.focus();
          return shown.length;
        }""",
        CONTROLS,
    )
    assert wanted > 40
    reached = set()
    for _ in range(wanted + 5):
        seeded_page.keyboard.press("Tab")
        reached.add(seeded_page.evaluate("document.activeElement?.dataset.place ?? null"))
    missed = seeded_page.evaluate(
        """reached => [...document.querySelectorAll("[data-place]")]
          .filter((one) => !reached.includes(one.dataset.place)).map((one) => one.outerHTML)""",
        [place for place in reached if place is not None],
    )
    assert missed == []


def test_another_language_keeps_the_page_and_what_it_shows(
    seeded_page: Page, seeded_url: str
) -> None:
    open_page(seeded_page, f"{seeded_url}/profiles/prod-h100?revision=1")
    expect(seeded_page.locator("#defaults caption")).to_have_text("Values of revision 1")
    seeded_page.get_by_role("link", name="French").click()
    expect(seeded_page.locator("html")).to_have_attribute("lang", "fr")
    expect(seeded_page.locator("#defaults caption")).to_have_text("Valeurs de la révision 1")
    expect(seeded_page).to_have_url(f"{seeded_url}/profiles/prod-h100?revision=1")
    # It is kept for the next page too.
    seeded_page.goto(f"{seeded_url}/profiles")
    expect(seeded_page.locator("h1")).to_have_text("Profils de cluster")
