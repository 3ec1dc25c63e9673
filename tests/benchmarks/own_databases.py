"""Databases of a benchmark's own: SQLite files and a PostgreSQL server, both durable."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from tests.conftest import running_server

# Everything else is PostgreSQL's default: fsync, synchronous_commit and full_page_writes are on.
POSTGRESQL_OPTIONS = "-c listen_addresses=''"


class Backend(NamedTuple):
    """One kind of database: `new()` is the URL of an empty one, `settle()` ends pending writes."""

    name: str
    new: Callable[[], str]
    settle: Callable[[], None]


@contextmanager
def backends() -> Iterator[list[Backend]]:
    """Both kinds, with the durability that Trainard runs with, removed at the end."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(running_server(options=POSTGRESQL_OPTIONS))

        def settle() -> None:
            server.execute("CHECKPOINT")
            os.sync()

        yield [
            Backend("SQLite", lambda: f"sqlite:///{folder}/{uuid4().hex}.db", os.sync),
            Backend("PostgreSQL", lambda: server.url(server.new_database()), settle),
        ]
