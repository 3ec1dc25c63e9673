"""The page of what is kept: for those who may read it, and a sentence for the others."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import guarded_page
from tests.browser.seeded import Closed

pytestmark = pytest.mark.browser


def test_it_says_what_is_kept_how_long_and_what_would_go(browser: Browser, closed: Closed) -> None:
    url = closed.seeded.url
    with guarded_page(browser, url) as page:
        page.request.post(f"{url}/v1/session", data={"key": closed.viewer_key})
        page.goto(f"{url}/retention")
        expect(page.locator("#permission")).to_contain_text("(scope audit:read)")
        expect(page.locator("#policies-part")).to_be_hidden()
        page.request.post(f"{url}/v1/session", data={"key": closed.admin_key})
        page.goto(f"{url}/retention?lang=fr")
        kept = page.locator("#policies tbody tr")
        expect(kept).to_have_count(6)
        expect(page.locator('[data-kept="batches"]')).to_contain_text("toujours")
        log = page.locator('[data-kept="deliveries"] td')
        expect(log.nth(0)).to_have_text("90 jours")
        expect(log.nth(1)).to_have_text("0")
        expect(page.locator("#permission")).to_be_hidden()
