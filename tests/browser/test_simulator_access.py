"""The simulator of somebody who may look at profiles, and neither make anything nor see money."""

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import guarded_page
from tests.browser.seeded import Closed

pytestmark = pytest.mark.browser


def test_who_may_make_nothing_and_see_no_money_is_told_so(browser: Browser, closed: Closed) -> None:
    url = closed.seeded.url
    with guarded_page(browser, url) as page:
        page.request.post(f"{url}/v1/session", data={"key": closed.viewer_key})
        page.goto(f"{url}/?profile=prod-h100&num_gpus=64&rates=H100-SXM&currency=EUR")
        expect(page.locator('[data-figure="lost_day"]')).to_have_text("0")
        # The page asks for money, and is told that it is withheld.
        expect(page.locator('[data-figure="cost"]')).to_have_text("\u2013")
        expect(page.locator('[data-note="cost"]')).to_contain_text("costs:read")
        save = page.get_by_role("button", name="Save as profile")
        expect(save).to_be_disabled()
        expect(save).to_have_accessible_description(re.compile(r"scope profiles:write"))
        expect(page.get_by_role("button", name="Post as batch")).to_be_disabled()
        # The key is the reader's own: the copied command asks for it.
        page.get_by_role("button", name="Copy as curl").click()
        expect(page.locator('[data-shared="curl"]')).to_contain_text("Bearer $TRAINARD_KEY")
        assert closed.viewer_key not in page.content()
