from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from service.cli.child_service import running_service
from service.db import migrate
from service.db.engine import Database
from tests.api.access_keys import key_of
from tests.browser.conftest import guarded_page

pytestmark = pytest.mark.browser
SLOW_MS = 20_000


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a service with keys, and the key of a viewer."""
    url = f"sqlite:///{tmp_path / 'trainard.db'}"
    migrate.upgrade(url)
    database = Database(url)
    key = key_of(database, "viewer")["Authorization"].removeprefix("Bearer ")
    database.close()
    with running_service(url, port=0, log=tmp_path / "service.log") as address:
        yield address, key


def execute(page: Page, operation: str) -> str:
    """Press Execute in an operation; the status that is shown."""
    block = page.locator(f"#operations-Service-{operation}")
    if block.locator("button.execute").count() == 0:
        block.locator(".opblock-summary-control").click()
    block.locator("button.execute").click()
    status = block.locator(".live-responses-table tbody .response-col_status").first
    expect(status).to_be_visible(timeout=SLOW_MS)
    return status.inner_text().split()[0]


def test_a_key_given_to_authorize_is_sent(browser: Browser, closed: tuple[str, str]) -> None:
    address, key = closed
    with guarded_page(browser, address) as page:
        page.goto(f"{address}/docs")
        expect(page.locator(".opblock").first).to_be_visible(timeout=SLOW_MS)
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
