"""The viewer of reports: headline and frame have the API's own figures."""

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PATIENCE_S
from tests.browser.seeded import Seeded

pytestmark = pytest.mark.browser


def test_headline_and_frame_show_the_figures_of_the_api(seeded_page: Page, seeded: Seeded) -> None:
    report = httpx.get(f"{seeded.url}/v1/reports/{seeded.report}", timeout=PATIENCE_S).json()
    headline = report["headline"]
    lost = f"{headline['gpu_hours_lost_per_30_days']:,.0f}"
    cost = headline["cost_of_loss_per_30_days"]
    seeded_page.goto(f"{seeded.url}/reports/{seeded.report}")
    shown = seeded_page.locator("#headline")
    expect(shown.locator(".figure").nth(0)).to_contain_text(f"{lost} GPU-hours")
    expect(shown.locator(".figure").nth(1)).to_contain_text(f"€{float(cost['amount']):,.2f}")
    frame = seeded_page.frame_locator("#frame iframe")
    expect(frame.locator("h1")).to_contain_text(report["name"])
    expect(frame.locator("body")).to_contain_text(lost)
    expect(seeded_page.locator("#frame iframe")).to_have_attribute(
        "title", f"Report: {report['name']}"
    )
    # It may run no script.
    expect(seeded_page.locator("#frame iframe")).to_have_attribute("sandbox", "")
    content = f"/v1/reports/{seeded.report}/content?format="
    for name, query in (
        ("JSON", "json"),
        ("CSV", "csv"),
        ("PARQUET", "parquet"),
        ("FOCUS", "focus"),
        ("HTML · FR", "html&language=fr"),
    ):
        link = seeded_page.get_by_role("link", name=name)
        expect(link).to_have_attribute("href", f"{content}{query}")
    with seeded_page.expect_download() as download:
        seeded_page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename.endswith(f"{seeded.report}.csv")
    # In the other language the frame is, too.
    seeded_page.get_by_role("link", name="French").click()
    expect(seeded_page.locator("#frame iframe")).to_have_attribute("src", re.compile("language=fr"))
    expect(frame.locator("html")).to_have_attribute("lang", "fr")


def test_a_report_of_two_batches_is_made_and_deleted(seeded_page: Page, seeded: Seeded) -> None:
    query = f"new=yes&batch={seeded.eviction}&baseline={seeded.sizing}"
    seeded_page.goto(f"{seeded.url}/reports?{query}")
    baseline = seeded_page.get_by_role("combobox", name="Compared with")
    expect(baseline).to_have_value("q1-sizing")
    # By its whole id, as one would find a batch that is not among the newest
    batch = seeded_page.get_by_role("combobox", name="Batch")
    batch.fill(seeded.eviction.upper())
    seeded_page.get_by_role("option", name="q1-sizing-eviction").click()
    expect(batch).to_have_value("q1-sizing-eviction")
    seeded_page.get_by_label("Name", exact=True).fill("Without the slow GPU")
    seeded_page.get_by_label("Budget: GPU-hours").fill("1")
    seeded_page.get_by_label("Rank remedies").uncheck()
    seeded_page.get_by_role("button", name="Have the report made").click()
    expect(seeded_page.locator("#state")).to_have_text("made")
    expect(seeded_page.locator('[data-budget="over"]')).to_be_visible()
    made = seeded_page.url.rpartition("/")[2]
    report = httpx.get(f"{seeded.url}/v1/reports/{made}").json()
    assert (report["name"], report["batch_id"]) == ("Without the slow GPU", seeded.eviction)
    assert report["baseline_batch_id"] == seeded.sizing
    change = report["headline"]["gpu_hours_lost_change"]["difference"]
    assert change < 0
    expect(seeded_page.locator("#headline")).to_contain_text(f"\u2212{abs(change):,.0f}")
    seeded_page.get_by_role("button", name="Delete").click()
    seeded_page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(seeded_page).to_have_url(f"{seeded.url}/reports")
    assert httpx.get(f"{seeded.url}/v1/reports/{made}").status_code == 404
