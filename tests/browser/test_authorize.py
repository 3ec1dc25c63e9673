import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import guarded_page
from tests.browser.seeded import Closed

pytestmark = pytest.mark.browser


def execute(page: Page, operation: str) -> str:
    """Press Execute in an operation; the status that is shown."""
    block = page.locator(f"#operations-Service-{operation}")
    if block.locator("button.execute").count() == 0:
        block.locator(".opblock-summary-control").click()
    block.locator("button.execute").click()
    status = block.locator(".live-responses-table tbody .response-col_status").first
    expect(status).to_be_visible()
    return status.inner_text().split()[0]


def test_a_key_given_to_authorize_is_sent(browser: Browser, closed: Closed) -> None:
    address, key = closed.seeded.url, closed.viewer_key
    with guarded_page(browser, address) as page:
        page.goto(f"{address}/docs")
        expect(page.locator(".opblock").first).to_be_visible()
        page.locator("button.authorize").first.click()
        dialog = page.locator(".modal-ux")
        dialog.locator("input").fill(key)
        dialog.get_by_role("button", name="Apply credentials").click()
        expect(dialog.get_by_role("button", name="Remove authorization")).to_be_visible()
        dialog.get_by_role("button", name="Close").first.click()
        assert execute(page, "get_meta") == "200"
        # A page that is left forgets the key.
        assert page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])") == (
            "[{},{}]"
        )
