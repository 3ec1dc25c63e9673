"""Schedules on their pages: when they come, their ledger, and their faults."""

import json
import re
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import guarded_page
from tests.browser.seeded import Seeded

pytestmark = pytest.mark.browser
SCHEDULES = "/v1/schedules"
SCENARIO = {
    "num_gpus": 8,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
}


def test_a_schedule_is_made_run_changed_and_deleted(page: Page, base_url: str) -> None:
    slug = f"made-{uuid4().hex[:8]}"
    page.goto(f"{base_url}/schedules?new=yes")
    page.get_by_label("Slug").fill(slug)
    page.get_by_label("Name", exact=True).fill("Every night")
    page.get_by_label("Time zone").fill("Europe/Paris")
    page.get_by_label("When (cron)").fill("15 3 * * 1")
    preview = page.locator(".preview tbody tr")
    expect(preview.first).to_contain_text("Mon,")
    expect(preview.first).to_contain_text("03:15 AM (UTC+0")
    expect(preview).to_have_count(20)
    expect(page.locator(".preview .said")).to_have_text("on Monday at 03:15, Europe/Paris")
    page.get_by_label("GPU-hours lost in 30 days").fill("20000")
    page.get_by_role("button", name="Create the schedule").click()
    expect(page.locator("h1")).to_contain_text("Every night")
    address = f"{base_url}{SCHEDULES}/{slug}"
    made = httpx.get(address).json()
    assert (made["cron"], made["zone"]) == ("15 3 * * 1", "Europe/Paris")
    assert made["budget"]["gpu_hours_lost_per_30_days"] == 20000

    page.get_by_role("button", name="Run now").click()
    row = page.locator("#runs tbody tr").first
    expect(row.locator('[data-state="succeeded"]')).to_be_visible()
    expect(row.get_by_role("link", name="Report")).to_be_visible()

    # Each by the keyboard, which stays at what takes the pressed button's place
    pause, resume = page.locator("#pause"), page.locator("#resume")
    expect(page.get_by_role("button", name="Run now")).to_be_focused()
    pause.press("Enter")
    expect(resume).to_be_focused()
    assert httpx.get(address).json()["paused"]
    resume.press("Enter")
    expect(pause).to_be_focused()
    expect(page.locator("#is-paused")).to_be_hidden()

    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Missed slots").select_option(label="run none")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#facts")).to_contain_text("run none")
    assert httpx.get(address).json()["misfire_policy"] == "skip"

    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page).to_have_url(f"{base_url}/schedules")
    expect(page.locator("main > .done")).to_have_text("“Every night” is deleted.")
    assert httpx.get(address).status_code == 404


def test_the_autumn_night_is_shown_in_local_time_and_utc(browser: Browser, seeded: Seeded) -> None:
    """Schedules at 2 o'clock in Paris: on 2027-10-31 that wall time exists twice."""
    with guarded_page(browser, seeded.url) as page:
        page.goto(f"{seeded.url}/schedules/nightly?after=2027-10-30")
        rows = page.locator("#occurrences tbody tr")
        expect(rows.nth(0)).to_contain_text("Sun, Oct 31, 2027, 02:00 AM (UTC+02:00)")
        expect(rows.nth(0)).to_contain_text("clocks go back")
        expect(rows.nth(0).locator("time").last).to_have_text("Sun, Oct 31, 2027, 12:00 AM (UTC)")
        expect(rows.nth(1)).to_contain_text("Mon, Nov 1, 2027, 02:00 AM (UTC+01:00)")
        expect(rows.nth(1).locator("time").last).to_have_text("Mon, Nov 1, 2027, 01:00 AM (UTC)")
        # The ledger has both runs of June 2024, with their reasons and reports.
        ledger = page.locator("#runs tbody tr")
        expect(ledger).to_have_count(2)
        expect(ledger.first).to_contain_text("Sun, Jun 2, 2024, 02:00 AM (UTC+02:00)")
        expect(ledger.first.get_by_role("link", name="Report")).to_have_attribute(
            "href", f"/reports/{seeded.report}"
        )
        # A dry run of a backfill lists what it would do and stores nothing.
        before = httpx.get(f"{seeded.url}{SCHEDULES}/nightly/backfills").json()
        form = page.locator("#backfill-form")
        form.get_by_label("First day", exact=True).fill("2024-06-01")
        form.get_by_label("Last day").fill("2024-06-04")
        form.get_by_role("button", name="Dry run").click()
        plan = page.locator("#backfill-plan")
        expect(plan).to_contain_text("2 slots would run, 2 would be left as they are")
        expect(plan.locator("tbody tr")).to_have_count(4)
        assert httpx.get(f"{seeded.url}{SCHEDULES}/nightly/backfills").json() == before


def test_the_faults_of_a_schedule_stand_at_their_fields(browser: Browser, seeded: Seeded) -> None:
    with guarded_page(browser, seeded.url, refused=[422]) as page:
        page.goto(f"{seeded.url}/schedules/nightly?edit=yes")
        page.get_by_role("group", name="How to write: Scenarios").get_by_text("JSON").click()
        cron, batch = page.get_by_label("When (cron)"), page.get_by_label("Scenarios, as JSON")
        batch.fill(
            json.dumps({"items": [{"custom_id": f"i{n}", "profile": "a"} for n in range(51)]})
        )
        page.get_by_role("group", name="How to write: Scenarios").get_by_text("Form").click()
        expect(page.get_by_text("up to 50 scenarios. These 51 are kept")).to_be_visible()
        # A run is found by its month, however many came after it
        page.get_by_label("Compared with").select_option(label="one run for ever")
        page.get_by_role("combobox", name="Run", exact=True).fill("2024-06")
        expect(page.get_by_role("listbox", name="Run").get_by_role("option")).to_have_count(2)
        page.get_by_label("Compared with").select_option(label="the run before")
        cron.fill("61 2 * * *")
        # Told as it is typed, and again beside what keeps the form from being sent
        expect(cron).to_have_attribute("aria-describedby", re.compile("-fault"))
        expect(page.locator(".field", has=cron).locator(".fault")).to_contain_text("61")
        batch.fill("{,}")
        page.get_by_label("Counts as missed").fill("1.5")
        page.get_by_role("button", name="Save").click()
        grace = page.locator(".field", has=page.get_by_label("Counts as missed"))
        expect(grace.locator(".fault")).to_have_text("Give a whole number from 1 to 86,400.")
        expect(page.locator("#schedule-form [aria-invalid]")).to_have_count(3)
        grace.locator("input").fill("300")
        batch.fill('{"items": [{"custom_id": "a", "profile": "no-such-profile"}]}')
        page.get_by_role("button", name="Save").click()
        expect(cron).to_have_attribute("aria-invalid", "true")
        expect(batch).to_have_attribute("aria-invalid", "true")
        expect(cron).to_be_focused()
    assert httpx.get(f"{seeded.url}{SCHEDULES}/nightly").json()["cron"] == "0 2 * * *"


def test_deliveries_and_scenarios_are_written_in_controls_and_as_json(
    browser: Browser, base_url: str
) -> None:
    """Nothing that the form has no field for is lost, on the way to JSON and back."""
    slug = f"written-{uuid4().hex[:8]}"
    address = f"{base_url}{SCHEDULES}/{slug}"
    endpoint = httpx.post(
        f"{base_url}/v1/webhook-endpoints",
        json={"name": f"chat of {slug}", "url": "https://hooks.invalid/x"},
    ).json()["id"]
    scenario = SCENARIO | {"slow_groups": [{"count": 1, "speed_fraction": 0.7}]}
    axes = [{"path": "num_gpus", "values": [8, 64]}]
    item = {"custom_id": "a", "scenario": scenario, "axes": axes, "headline": {"num_gpus": 8}}
    body = {"items": [item], "metadata": {"ticket": "CAP-1"}, "priority": 3}
    made = {"slug": slug, "name": "Written", "cron": "5 4 * * 7", "zone": "UTC", "batch": body}
    assert httpx.post(f"{base_url}{SCHEDULES}", json=made).status_code == 201
    before = httpx.get(address).json()

    with guarded_page(browser, base_url, refused=[422]) as page:
        page.goto(f"{base_url}/schedules/{slug}?edit=yes")
        expect(page.locator(".record").first).to_contain_text(
            "Kept as they are in the JSON: axes, headline"
        )
        page.get_by_role("button", name="Add a webhook").click()
        delivery = page.locator(".record", has_text="Delivery 1: webhook")
        page.get_by_role("button", name="Save").click()
        expect(delivery.locator(".fault")).to_have_text("This is needed.")
        delivery.get_by_label("Webhook endpoint").select_option(label=f"chat of {slug}")
        delivery.get_by_label("After which runs").select_option(label="when the loss moved")
        delivery.get_by_label("Or by more than").fill("7.5")
        views = page.get_by_role("group", name="How to write: Deliveries")
        views.get_by_text("JSON").click()
        written = page.get_by_label("Deliveries, as JSON")
        threshold = {"gpu_hours_lost_per_30_days": None, "relative": 0.075}
        webhook = {
            "kind": "webhook",
            "when": "on_change",
            "threshold": threshold,
            "include_costs": False,
            "language": None,
            "endpoint_id": endpoint,
        }
        assert json.loads(written.input_value()) == [webhook]
        written.fill("[{]")
        views.get_by_text("Form").click()
        expect(written).to_have_attribute("aria-invalid", "true")
        written.fill(json.dumps([webhook | {"language": "fr"}]))
        views.get_by_text("Form").click()
        expect(delivery.get_by_label("Language")).to_have_value("fr")
        page.get_by_role("button", name="Add a profile").click()
        added = page.locator(".record", has_text="Scenario 2")
        added.get_by_label("Cluster profile").fill("no-such-profile")
        added.get_by_label("Pinned revision").fill("3")
        added.get_by_label("Scenario id").fill("b")
        with page.expect_response(address) as refused:
            page.get_by_role("button", name="Save").click()
        sent = json.loads(refused.value.request.post_data or "{}")
        assert sent["batch"]["items"][1]["profile"] == "no-such-profile@3"
        expect(added.get_by_label("Cluster profile")).to_have_attribute("aria-invalid", "true")
        added.get_by_role("button", name="Remove").click()
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#edit-schedule")).to_be_hidden()
    after = httpx.get(address).json()
    assert after["deliveries"] == [webhook | {"language": "fr"}]
    assert after["batch"] == before["batch"]
    httpx.delete(address, headers={"If-Match": f'"{after["version"]}"'})
