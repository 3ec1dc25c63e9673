"""Calibrations on their pages: sent, refused with reasons, read, accepted; and back-tests."""

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.conftest import guarded_page
from tests.browser.seeded import Seeded, timings

pytestmark = pytest.mark.browser
CALIBRATIONS = "/v1/calibrations"


def table_of(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def with_wait() -> str:
    """Every rank timed up to the barrier: all alike within a step."""
    times = [
        f"{step},{rank},{400 + 10 * (step % 7)}.{rank}" for step in range(20) for rank in range(8)
    ]
    return "\n".join(["step,rank,compute_ms", *times])


def stored(base_url: str, name: str) -> int:
    found = httpx.get(base_url + CALIBRATIONS, params={"name_contains": name})
    return len(found.json()["items"])


def test_timings_are_refused_checked_stored_once_and_accepted(
    browser: Browser, base_url: str, tmp_path: Path
) -> None:
    with guarded_page(browser, base_url, refused=[422]) as page:
        page.goto(f"{base_url}/calibrations?new=yes")
        page.get_by_label("Files with timings").set_input_files(
            table_of(tmp_path, "waited.csv", with_wait())
        )
        page.get_by_role("button", name="Read and fit").click()
        refused = page.locator("#upload-refusals")
        expect(refused).to_contain_text("Waiting is in the timings")
        page.get_by_role("button", name="Remove waited.csv").click()
        expect(refused).to_be_empty()

        page.get_by_label("Files with timings").set_input_files(
            table_of(tmp_path, "night.csv", timings())
        )
        page.get_by_role("button", name="Check only").click()
        expect(page.locator("#preview")).to_contain_text("rank 3 at 70%")
        assert stored(base_url, "night.csv") == 0
        page.get_by_role("button", name="Read and fit").click()
        # The page of what was found: the slow rank by name, the pictures with their values.
        expect(page.locator("#calibration-name")).to_have_text("night.csv")
        expect(page.locator("#outliers")).to_contain_text("Rank 3: slow")
        drawn = page.locator("#ranks .drawing")
        expect(drawn).to_have_attribute("aria-label", "Rank by rank")
        expect(page.locator("#gaps svg")).to_be_visible()
        expect(page.locator("#source")).to_contain_text(re.compile("[0-9a-f]{64}"))

        link = page.get_by_role("link", name="Open in the simulator")
        expect(link).to_have_attribute("href", re.compile(r"slow_groups\.0\.count=1"))
        accept = page.locator("#accept")
        expect(accept).to_be_visible()
        accept.get_by_label("Slug").fill("calibrated")
        accept.get_by_label("GPU type").fill("H100-SXM")
        page.get_by_label("Take variability.common").uncheck()
        page.get_by_role("button", name="Make the revision").click()
        expect(page.locator("#profile-name")).to_have_text("night.csv")
        expect(page.locator(".provenance")).to_contain_text("From the calibration night.csv")
        # A name may have no place to break it at
        page.locator(".provenance a").evaluate("link => { link.textContent = 'n'.repeat(200); }")
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width
    made = httpx.get(f"{base_url}/v1/cluster-profiles/calibrated").json()
    assert "variability.common" not in made["provenance"]["paths"]
    assert made["defaults"]["slow_groups"][0]["count"] == 1


def test_sending_can_be_canceled_and_is_the_same_wish_when_it_is_sent_again(
    page: Page, base_url: str, tmp_path: Path
) -> None:
    name = "again.csv"
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    page.goto(f"{base_url}/calibrations?new=yes")
    page.get_by_label("Files with timings").set_input_files(
        table_of(tmp_path, name, timings(num_steps=16))
    )
    tools = page.context.new_cdp_session(page)
    tools.send("Network.enable")
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 2000}
    tools.send("Network.emulateNetworkConditions", slow)
    page.get_by_role("button", name="Read and fit").click()
    expect(page.locator("#sending progress")).to_be_visible()
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.locator("#live")).to_have_text("Canceled: nothing was stored.")
    assert stored(base_url, name) == 0
    tools.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
    page.get_by_role("button", name="Read and fit").click()
    expect(page.locator("#calibration-name")).to_have_text(name)
    # Had the first one been stored although its answer was lost, the second would answer it.
    assert len(sent) == 2
    assert len({request.headers["idempotency-key"] for request in sent}) == 1
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".done")).to_contain_text("is deleted")


def test_quantiles_and_phases_are_answered_with_what_they_leave_open(
    page: Page, base_url: str
) -> None:
    page.goto(f"{base_url}/calibrations?coarse=yes")
    form = page.locator("#coarse-form")
    form.get_by_label("GPUs", exact=True).fill("64")
    form.get_by_label("Step, p50").fill("420")
    page.get_by_role("button", name="Find the readings").click()
    p95 = form.get_by_label("Step, p95")
    expect(p95).to_have_attribute("aria-invalid", "true")
    p95.fill("440")
    page.get_by_role("button", name="Find the readings").click()
    result = page.locator("#coarse")
    expect(result).to_contain_text("All of the spread is each GPU\u2019s own")
    expect(result.get_by_role("link", name="slow_groups")).to_have_attribute(
        "href", "/inputs#slow_groups.count"
    )
    page.get_by_role("button", name="Overlap audit").click()
    form = page.locator("#audit-form")
    for label, value in (("Step (ms)", "412"), ("Compute", "300"), ("Communication (ms)", "80")):
        form.get_by_label(label).first.fill(value)
    page.get_by_role("button", name="Audit", exact=True).click()
    expect(page.locator("#audit .tag")).to_have_text("cannot tell")
    expect(page.locator("#audit .experiments li").first).to_be_visible()


def test_runs_that_part_from_a_profile_are_told_on_its_page(
    seeded_page: Page, seeded: Seeded
) -> None:
    url = seeded.url
    seeded_page.goto(f"{url}/back-tests?new=yes&profile=prod-h100")
    form = seeded_page.locator("#test-form")
    form.get_by_label("Run", exact=True).fill("job-17")
    form.get_by_label("Steps", exact=True).fill("5000")
    form.get_by_label("Mean step").fill("640")
    form.get_by_label("Standard deviation").fill("8")
    seeded_page.get_by_role("button", name="Hold it against its profile").click()
    expect(seeded_page.locator("#test h2")).to_contain_text("parted")
    expect(seeded_page.locator("#drift")).to_contain_text("slower than predicted")
    made = seeded_page.url.partition("test=")[2]
    try:
        seeded_page.goto(f"{url}/profiles/prod-h100")
        expect(seeded_page.locator("#drift .advice")).to_contain_text("Runs drift")
    finally:
        address = f"{url}/v1/back-tests/{made}"
        etag = httpx.get(address).headers["ETag"]
        httpx.delete(address, headers={"If-Match": etag}).raise_for_status()
