"""Rates on their page: recorded, corrected, imported and resolved; withheld from a viewer."""

import re
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import guarded_page
from tests.browser.seeded import Closed

pytestmark = pytest.mark.browser
RATES = "/v1/gpu-hour-rates"


def test_a_rate_is_recorded_resolved_and_corrected(page: Page, base_url: str) -> None:
    gpu_type = f"GPU-{uuid4().hex[:8]}"
    page.goto(f"{base_url}/rates")
    page.get_by_role("button", name="New rate").click()
    form = page.locator("#new-form")
    form.get_by_label("GPU type").fill(gpu_type)
    form.get_by_label("Currency").fill("EUR")
    form.get_by_label("Price").fill("2.10")
    form.get_by_label("From").fill("2026-10-01")
    form.get_by_label("Source").fill("example amount")
    page.get_by_role("button", name="Record the rate").click()
    row = page.locator("#rates tbody tr", has_text=gpu_type)
    expect(row).to_contain_text("€2.10")

    asked = page.locator("#resolution-form")
    asked.get_by_label("GPU type").fill(gpu_type)
    asked.get_by_label("Currency").fill("EUR")
    asked.get_by_label("Cost center").fill("research")
    asked.get_by_label("Day").fill("2026-12-01")
    expect(page.locator("#resolution .big")).to_have_text("€2.10 a GPU-hour")
    expect(page.locator("#resolution")).to_contain_text("The rate without a cost center.")
    asked.get_by_label("Day").fill("2026-09-30")
    expect(page.locator("#resolution .big")).to_have_text("no rate")
    expect(page.locator("#resolution .lost")).to_contain_text("not begun")
    # The question is in the address.
    page.reload()
    expect(page.locator("#resolution .big")).to_have_text("no rate")

    row.get_by_role("button", name="Correct").click()
    form = page.locator("#correct-form")
    form.get_by_label("Price").fill("2.20")
    form.get_by_label("Reason").fill("typing error")
    page.get_by_role("button", name="Record the correction").click()
    expect(row).to_contain_text("€2.20")
    expect(row).to_contain_text("Because: typing error")
    query = {"gpu_type": gpu_type, "include_superseded": "true"}
    stored = httpx.get(f"{base_url}{RATES}", params=query).json()["items"]
    amounts = {
        one["price_per_gpu_hour"]["amount"]: one["superseded_by"] is not None for one in stored
    }
    assert amounts == {"2.10": True, "2.20": False}
    # An amount is written and read as the page's language does.
    (newest,) = [one["id"] for one in stored if one["superseded_by"] is None]
    page.goto(f"{base_url}/rates?lang=fr&correct={newest}")
    amount = page.locator('#correct-form [data-pointer="/price_per_gpu_hour/amount"]')
    expect(amount).to_have_value("2,20")
    expect(amount).to_have_accessible_description(re.compile("Lu comme 2,20\\s€"))
    amount.fill("2.30")
    page.locator("#correct-form [type=submit]").first.click()
    expect(amount).to_have_accessible_description(re.compile("sans ambiguïté"))


def test_an_import_names_its_faults_by_line_and_is_all_or_nothing(
    browser: Browser, base_url: str
) -> None:
    gpu_type = f"GPU-{uuid4().hex[:8]}"
    head = "gpu_type,currency,price_per_gpu_hour,valid_from,source\n"
    good = f"{gpu_type},EUR,1.00,2026-01-01,example amount\n"
    bad = f"{gpu_type},EUR,-1,2026-01-01,x\n{gpu_type},EUR,1.00,2026-13-01,x\n"
    with guarded_page(browser, base_url, refused=[422]) as page:
        page.goto(f"{base_url}/rates?import=yes")
        page.get_by_label("CSV text").fill(head + good + bad)
        page.get_by_role("button", name="Check only").click()
        faults = page.locator("#import-outcome tbody tr")
        expect(faults).to_have_count(2)
        expect(faults.first).to_contain_text("price_per_gpu_hour")
        expect(faults.locator("th")).to_have_text(["3", "4"])
        page.get_by_label("CSV text").fill(head + good)
        page.get_by_role("button", name="Check only").click()
        expect(page.locator("#import-outcome caption")).to_have_text("1 rate would be recorded")
        page.get_by_role("button", name="Import all").click()
        expect(page.locator("#rates tbody tr", has_text=gpu_type)).to_contain_text("€1.00")
        # What breaks a rule is told at its field.
        page.get_by_role("button", name="New rate").click()
        page.locator("#new-form").get_by_label("Price").fill("two")
        page.get_by_role("button", name="Record the rate").click()
        expect(page.locator("#new-form").get_by_label("Price")).to_have_attribute(
            "aria-invalid", "true"
        )


def test_rates_are_withheld_from_a_viewer_in_silence(browser: Browser, closed: Closed) -> None:
    with guarded_page(browser, closed.seeded.url) as page:
        page.goto(f"{closed.seeded.url}/rates")
        page.get_by_label("API key").fill(closed.viewer_key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#withheld")).to_be_visible()
        expect(page.locator("#withheld")).to_contain_text("costs:read")
        expect(page.locator("#content")).to_be_hidden()
        # In a report the cost is withheld too, above it and in it.
        page.goto(f"{closed.seeded.url}/reports/{closed.seeded.report}")
        expect(page.locator("#headline")).to_contain_text("withheld")
        assert "€" not in page.locator("main").inner_text()
        frame = page.frame_locator("#frame iframe").locator("body")
        expect(frame).to_contain_text("withheld")
        assert "€" not in frame.inner_text()
