"""Profiles on their pages: made, revised, archived and taken back, with the API's own faults."""

from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import guarded_page

pytestmark = pytest.mark.browser
PROFILES = "/v1/cluster-profiles"


def test_a_profile_is_made_revised_and_archived(page: Page, base_url: str) -> None:
    slug = f"made-{uuid4().hex[:8]}"
    page.goto(f"{base_url}/profiles")
    page.get_by_role("button", name="New profile").click()
    page.get_by_label("Slug").fill(slug)
    page.get_by_label("Name", exact=True).fill("A new cluster")
    form = page.locator("#profile-form")
    form.get_by_label("GPU type").fill("H100-SXM")
    page.get_by_label("Tags").fill("site: par1\nteam : language")
    page.get_by_label("Compute (ms)").fill("280.5")
    page.get_by_role("button", name="Create the profile").click()
    expect(page.locator("#profile-name")).to_have_text("A new cluster")
    made = httpx.get(f"{base_url}{PROFILES}/{slug}").json()
    assert (made["defaults"]["compute_ms"], made["defaults"]["num_gpus"]) == (280.5, 1024)
    assert made["tags"] == {"site": "par1", "team": "language"}

    page.get_by_role("button", name="Edit").click()
    page.get_by_label("GPUs", exact=True).fill("512")
    page.get_by_role("button", name="Save as the next revision").click()
    first = page.locator("#revisions > li").first
    expect(first).to_contain_text("Revision 2")
    expect(first.locator(".changes")).to_have_text("GPUs: 1,024 → 512")
    # An earlier revision is in the address, and there after a reload.
    page.get_by_role("button", name="Revision 1").click()
    expect(page).to_have_url(f"{base_url}/profiles/{slug}?revision=1")
    page.reload()
    row = page.locator("#defaults tr", has=page.locator("code", has_text="num_gpus"))
    expect(row.locator("td").first).to_have_text("1,024")
    page.go_back()
    expect(row.locator("td").first).to_have_text("512")

    page.get_by_role("button", name="Archive").click()
    page.get_by_role("dialog").get_by_role("button", name="Archive").click()
    expect(page.locator("#archived")).to_be_visible()
    page.get_by_role("button", name="Take back into use").click()
    expect(page.locator("#archived")).to_be_hidden()
    assert httpx.get(f"{base_url}{PROFILES}/{slug}").json()["archived_at"] is None


def test_faults_are_told_at_their_fields_and_a_change_meanwhile_is_told(
    browser: Browser, seeded_url: str
) -> None:
    address = f"{seeded_url}{PROFILES}/prod-h100"
    known = httpx.get(address)
    with guarded_page(browser, seeded_url, refused=[412, 422]) as page:
        page.goto(f"{seeded_url}/profiles/prod-h100?edit=yes")
        gpus, whole = page.get_by_label("GPUs", exact=True), page.get_by_label("as JSON")
        gpus.fill("0")
        page.get_by_role("button", name="Save as the next revision").click()
        expect(gpus).to_have_attribute("aria-invalid", "true")
        expect(gpus).to_be_focused()
        expect(page.locator(".fault")).to_contain_text("1")
        # What has no field of its own is told at the document.
        whole.fill('{"num_gpus": 64, "compute_ms": 300, "pipeline": {"stages": 0}}')
        page.get_by_role("button", name="Save as the next revision").click()
        expect(whole).to_have_attribute("aria-invalid", "true")
        expect(gpus).not_to_have_attribute("aria-invalid", "true")
        whole.fill("{,}")
        page.get_by_role("button", name="Save as the next revision").click()
        expect(page.locator(".fault")).to_contain_text("This is no JSON")
        # Somebody else is faster: archived and taken back it is another version.
        etag = {"If-Match": known.headers["ETag"]}
        archived = httpx.post(f"{address}/archival", headers=etag)
        httpx.request(
            "DELETE", f"{address}/archival", headers={"If-Match": archived.headers["ETag"]}
        ).raise_for_status()
        whole.fill('{"num_gpus": 64, "compute_ms": 300}')
        page.get_by_role("button", name="Save as the next revision").click()
        expect(page.locator(".faults")).to_contain_text("changed meanwhile")
        expect(page.get_by_role("button", name="Reload")).to_be_focused()
    assert httpx.get(address).json()["revision"] == known.json()["revision"]
