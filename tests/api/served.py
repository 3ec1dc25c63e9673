"""A service on a real socket that computes nothing: tests say when a batch goes on."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from litestar import Litestar

from service.api.file_readings import reading_turns
from service.cli.bounded_protocol import protocol_within
from service.cli.graceful_server import GracefulServer
from service.db.engine import Database
from service.settings import Limits, Settings
from tests.api.reused_apps import app_over

WITHIN_S = 60


@contextmanager
def served(
    database: Database, limits: Limits | None = None, *, spool_folder: str = ""
) -> Iterator[tuple[str, Litestar]]:
    """Yield the address and the app; ends with the block, open answers included."""
    settings = Settings(limits=limits or Limits(), spool_folder=spool_folder)
    with app_over(settings, database) as app, _listening(app, settings) as address:
        yield address, app


@contextmanager
def _listening(app: Litestar, settings: Settings) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    # Without its lifespan the app starts no engine.
    config = uvicorn.Config(
        app,
        http=protocol_within(settings.limits),
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=5,
    )
    server = GracefulServer(config, app.state.batch_watch)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        wait_until(lambda: server.started)
        app.state.reading_turns = reading_turns()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(WITHIN_S)
        assert not thread.is_alive()
        app.state.spool.close()


def wait_until(condition: Callable[[], bool], seconds: float = WITHIN_S) -> None:
    """Look until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        # To look takes the processor that what is waited for needs.
        time.sleep(0.05)
