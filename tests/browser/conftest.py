"""A running service and a real browser, in a pytest process of their own.

Synchronous Playwright keeps an event loop running in its thread, so no other test of the same
process could start one.
"""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

from service.cli.child_service import running_service
from tests.browser.seeded import Closed, Seeded, closed_copy, seed

INSTALL = "apt-get update && apt-get install -y --no-install-recommends chromium"
# Machines that run tests are slower than people wait: seven processes share two cores there, and a
# page that answers in a second takes half a minute. One bound for all that is waited for.
PATIENCE_S = 120
PATIENCE_MS = PATIENCE_S * 1000
expect.set_options(timeout=PATIENCE_MS)
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
def seeded_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the database of `seeded` is."""
    return tmp_path_factory.mktemp("seeded") / "trainard.db"


@pytest.fixture(scope="session")
def seeded(seeded_database: Path) -> Iterator[Seeded]:
    """A service that has something to show. Whoever adds to it takes it away again."""
    database_url = f"sqlite:///{seeded_database}"
    log = seeded_database.with_name("service.log")
    with running_service(database_url, port=0, log=log) as address:
        yield seed(address)


@pytest.fixture(scope="session")
def seeded_url(seeded: Seeded) -> str:
    """Its address."""
    return seeded.url


@pytest.fixture(scope="session")
def closed(
    seeded: Seeded, seeded_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Closed]:
    """The same on a service of its own that asks for a key."""
    copied = tmp_path_factory.mktemp("closed") / "trainard.db"
    keys = closed_copy(seeded_database, copied)
    log = copied.with_name("service.log")
    with running_service(f"sqlite:///{copied}", port=0, log=log) as address:
        yield Closed(seeded=replace(seeded, url=address), **keys)


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


@pytest.fixture
def seeded_page(browser: Browser, seeded_url: str) -> Iterator[Page]:
    """Such a page of the service that has something to show."""
    with guarded_page(browser, seeded_url) as opened:
        yield opened


@contextmanager
def guarded_page(
    browser: Browser, base_url: str, *, refused: Collection[int] = ()
) -> Iterator[Page]:
    """A page of the service at `base_url` that keeps to it in silence.

    Of answers with a status of `refused` the browser itself complains, which is no fault.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    outside: list[str] = []
    complaints: list[str] = []

    def note(request: Request) -> None:
        if not request.url.startswith((f"{base_url}/", "data:", "blob:")):
            outside.append(request.url)

    # No other host has an address (ARGUMENTS). To route requests would take the browser its cache.
    context.on("request", note)
    opened = context.new_page()
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    assert outside == []
    told = tuple(f"status of {status}" for status in refused)
    assert [one for one in complaints if not any(part in one for part in told)] == []
