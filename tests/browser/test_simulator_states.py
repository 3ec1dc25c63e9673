"""What the simulator says of figures that are not there, not of now, or not what one expects."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import guarded_page
from tests.browser.test_simulator import field, figure, open_simulator

pytestmark = pytest.mark.browser

# Other tests compute beside


def card(page: Page, name: str) -> Any:
    return page.locator(f'[data-figure-card="{name}"]')


def completed(page: Page, times: int) -> None:
    expect(page.locator("html")).to_have_attribute("data-completed", str(times))


def test_a_part_that_is_refused_says_so_in_its_own_card(browser: Browser, base_url: str) -> None:
    with guarded_page(browser, base_url, refused={422}) as page:
        query = "?pipeline.schedule=1f1b&pipeline.stages=64&pipeline.microbatches=256"
        open_simulator(page, base_url, f"{query}&num_gpus=64&slow_groups=none")
        expect(page.locator("#pipeline")).to_contain_text("at most 20000 operations")
        completed(page, 1)
        expect(page.locator("#refused")).to_be_hidden()
        expect(page.locator("main [aria-busy='true']:visible")).to_have_count(0)
        # With fewer micro-batches it is drawn.
        field(page, "pipeline.microbatches").fill("8")
        expect(page.locator("#pipeline .part-refused")).to_have_count(0)
        expect(page.locator("#pipeline-timeline svg").first).to_be_visible()


def test_a_card_is_pale_until_its_own_answer_is_there(page: Page, base_url: str) -> None:
    open_simulator(page, base_url)
    completed(page, 1)
    held: list[Route] = []

    def hold(route: Route) -> None:
        body: dict[str, Any] = route.request.post_data_json or {}
        if "leave_out" in body and "single_draw" not in body:
            route.continue_()
        else:
            held.append(route)

    page.route("**/v1/evaluations*", hold)
    page.route("**/v1/evaluations/curve", hold)
    field(page, "num_gpus").fill("1024")
    expect(figure(page, "lost_day")).to_have_text("5,867")
    for name in ("efficiency", "lost_day", "lost_window", "cost"):
        expect(card(page, name)).to_have_attribute("aria-busy", "false")
    expect(page.locator("#gpus")).to_have_attribute("aria-busy", "false")
    expect(card(page, "spread")).to_have_attribute("aria-busy", "true")
    for name in ("causes", "growth"):
        expect(page.locator(f"#{name}")).to_have_attribute("aria-busy", "true")
    while len(held) < 2:
        page.wait_for_timeout(20)
    for route in held:
        route.continue_()
    completed(page, 2)
    expect(figure(page, "spread")).to_have_text("176,008")
    expect(card(page, "spread")).to_contain_text("Every cluster loses the same")
    expect(page.locator("main [aria-busy='true']:visible")).to_have_count(0)
    page.unroute_all()


def test_an_outage_is_said_in_sight_and_ends_by_itself(browser: Browser, base_url: str) -> None:
    with guarded_page(browser, base_url, refused={503}) as page:
        open_simulator(page, base_url)
        completed(page, 1)
        away = {"status": 503, "headers": {"Retry-After": "1"}, "json": {"title": "Away"}}
        page.route("**/v1/evaluations*", lambda route: route.fulfill(**away))
        page.mouse.wheel(0, 900)
        field(page, "num_gpus").fill("1024")
        said = page.locator("#away")
        expect(said).to_contain_text("cannot answer at the moment")
        expect(said).to_be_in_viewport(ratio=1)
        expect(said.get_by_role("button", name="Try again")).to_be_visible()
        expect(card(page, "lost_day")).to_have_attribute("aria-busy", "true")
        page.unroute_all()
        expect(said).to_be_hidden()
        expect(figure(page, "lost_day")).to_have_text("5,867")
        expect(card(page, "lost_day")).to_have_attribute("aria-busy", "false")


def test_a_list_says_that_the_service_is_away_and_asks_again(
    browser: Browser, base_url: str
) -> None:
    with guarded_page(browser, base_url, refused={503}) as page:
        away = {"status": 503, "headers": {"Retry-After": "1"}, "json": {"title": "Away"}}
        page.route("**/v1/scenario-batches*", lambda route: route.fulfill(**away))
        page.goto(f"{base_url}/batches")
        again = page.get_by_role("button", name="Try again")
        expect(page.locator("main").get_by_role("alert").filter(has_text="Away")).to_be_visible()
        again.focus()
        page.unroute_all()
        expect(again).to_have_count(0)
        expect(page.get_by_role("region", name="Batches, newest first")).to_be_focused()


def test_figures_that_surprise_are_explained(page: Page, base_url: str) -> None:
    open_simulator(page, base_url)
    page.locator('[data-try="local_steps"]').click()
    expect(figure(page, "efficiency")).to_have_text("109.87%")
    expect(page.locator('[data-note="efficiency"]')).to_contain_text("beats the ideal")
    expect(page.locator('[data-note="lost_day"]')).to_contain_text("a gain over the ideal")
    page.locator('[data-try="failures"]').click()
    expect(page.locator("#growth")).to_contain_text("Single draw of one step, without failures")


def test_nothing_hides_the_focus_or_the_present_page_on_a_phone(page: Page, base_url: str) -> None:
    page.set_viewport_size({"width": 390, "height": 700})
    open_simulator(page, base_url)
    completed(page, 1)
    field(page, "num_gpus").focus()
    hidden = page.evaluate(
        """async () => {
          const inputs = [...document.querySelectorAll("#scenario input, #scenario summary")];
          const bar = document.getElementById("pinned");
          const under = [];
          for (const input of inputs.filter((one) => one.checkVisibility())) {
            input.focus();
            const [box, top] = [input.getBoundingClientRect(), bar.getBoundingClientRect().top];
            if (box.bottom > top && box.top < top) under.push(input.id);
            if (box.top >= top) under.push(input.id);
          }
          return under;
        }"""
    )
    assert hidden == []
    page.goto(f"{base_url}/inputs")
    pages = page.get_by_role("navigation")
    # Words end between two pixels, and lists are scrolled by whole ones.
    expect(pages.locator("[aria-current]")).to_be_in_viewport(ratio=0.98)
    expect(pages.locator("ul[data-more]")).to_have_attribute("data-more", "before")
