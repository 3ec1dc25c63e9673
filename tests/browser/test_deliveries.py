"""The page of deliveries: endpoints from their making to their end, and what became of messages."""

import re
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser
ENDPOINTS = "/v1/webhook-endpoints"
SECRET = re.compile(r"^whsec_[A-Za-z0-9+/]{40,}=*$")


def test_an_endpoint_is_made_tried_rotated_disabled_and_deleted(page: Page, base_url: str) -> None:
    name = f"chat {uuid4().hex[:8]}"
    page.goto(f"{base_url}/deliveries?new=yes")
    page.get_by_label("Name", exact=True).fill(name)
    # No name of `.invalid` is ever found: messages wait for another attempt
    page.get_by_label("URL", exact=True).fill("https://hooks.invalid/trainard")
    page.get_by_role("button", name="Make the endpoint").click()
    dialog = page.get_by_role("dialog")
    first = dialog.locator("#secret").inner_text()
    assert SECRET.match(first)
    dialog.get_by_role("button", name="I have kept it").click()
    row = page.locator("#endpoints tbody tr", has_text=name)
    expect(row.locator('[data-enabled="true"]')).to_be_visible()
    expect(page.locator("#part-endpoint")).to_be_hidden()

    row.get_by_role("button", name="New secret").click()
    dialog.get_by_label("The old secret signs too").select_option(label="for an hour")
    dialog.get_by_role("button", name="New secret").click()
    second = dialog.locator("#secret").inner_text()
    assert SECRET.match(second)
    assert second != first
    dialog.get_by_role("button", name="I have kept it").click()
    expect(row).to_contain_text("The secret before signs too until")

    row.get_by_role("button", name="Test").click()
    detail = page.locator("#delivery-content")
    expect(detail).to_contain_text("webhook · test message")
    # After its attempt, which the page sees by itself
    expect(detail.locator("tbody tr").first).to_contain_text("hooks.invalid")
    log = page.locator("#log tbody tr", has_text=name)
    log.get_by_role("button", name="Call off").click()
    expect(log.locator('[data-state="canceled"]')).to_be_visible()
    expect(detail.locator('[data-state="canceled"]')).to_be_visible()

    row.get_by_role("button", name="Disable").click()
    dialog.get_by_role("button", name="Disable").click()
    expect(row.locator('[data-enabled="false"]')).to_be_visible()
    expect(row).to_contain_text("Disabled by")
    (found,) = [
        one for one in httpx.get(base_url + ENDPOINTS).json()["items"] if one["name"] == name
    ]
    assert found["enabled"] is False
    assert len(found["old_secrets_end_at"]) == 1

    row.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    expect(log).to_have_count(0)
    expect(page.locator("#log tbody tr").first).to_contain_text("a deleted endpoint")
    assert httpx.get(f"{base_url}{ENDPOINTS}/{found['id']}").status_code == 404
    # Sentences of the service are said in the page's language.
    page.goto(f"{base_url}/deliveries?lang=fr")
    newest = page.locator("#log tbody tr").first
    expect(newest).to_contain_text("essaie le point de réception.")
    expect(newest).to_contain_text("Le nom hooks.invalid n’a pas d’adresse.")  # noqa: RUF001 - French
