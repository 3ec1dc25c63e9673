"""A running service and a real browser, in a pytest process of their own.

Synchronous Playwright keeps an event loop running in its thread, so no other test of the same
process could start one.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

from service.cli.child_service import running_service

INSTALL = "apt-get update && apt-get install -y --no-install-recommends chromium"
ARGUMENTS = [
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


@pytest.fixture(scope="session")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service over an embedded database."""
    folder = tmp_path_factory.mktemp("served")
    database_url = f"sqlite:///{folder / 'trainard.db'}"
    with running_service(database_url, port=0, log=folder / "service.log") as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; Playwright's own download is not needed."""
    program = shutil.which("chromium")
    if program is None:
        pytest.fail(f"no Chromium on this machine; install it: {INSTALL}")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, base_url: str) -> Iterator[Page]:
    """A page that may not leave the host and may not complain on its console."""
    with guarded_page(browser, base_url) as opened:
        yield opened


@contextmanager
def guarded_page(browser: Browser, base_url: str) -> Iterator[Page]:
    """A page of the service at `base_url` that keeps to it in silence."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    outside: list[str] = []
    complaints: list[str] = []

    def gate(route: Route) -> None:
        if route.request.url.startswith((f"{base_url}/", "data:", "blob:")):
            route.continue_()
        else:
            outside.append(route.request.url)
            route.abort()

    context.route("**/*", gate)
    opened = context.new_page()
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    assert outside == []
    assert complaints == []
