"""A database that the first version wrote is upgraded, and taken back, without losing a row.

The files in `first_version` were made by that version's own code; `make.py.txt` says how.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import anyio
import httpx
import numpy as np
import pytest
from sqlalchemy import String, column, inspect, select, table

from service.app import create_app
from service.db import migrate
from service.db.blocks import read_columns
from service.db.engine import Connection, Database
from service.db.tables import metadata
from service.db.types import UtcDateTime
from service.model.results import COLUMN_NAMES
from service.settings import Settings
from tests.conftest import PostgresServer
from tests.jobs.completed import complete

FOLDER = Path(__file__).parent / "first_version"
FIRST = "0001"
# Columns that the second version has no more.
DROPPED = {"runner": String(100), "lease_until": UtcDateTime()}

Rows = dict[str, list[tuple[Any, ...]]]
Recorded = dict[str, Any]


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    """What the first version answered, and how many rows it had."""
    found: Recorded = json.loads(gzip.decompress((FOLDER / "answers.json.gz").read_bytes()))
    return found


@pytest.fixture
def first_sqlite_url(tmp_path: Path) -> str:
    path = tmp_path / "first.db"
    path.write_bytes(gzip.decompress((FOLDER / "trainard.db.gz").read_bytes()))
    return f"sqlite:///{path}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def first_url(request: pytest.FixtureRequest, first_sqlite_url: str) -> Iterator[str]:
    """The URL of the first version's database; on PostgreSQL the same rows in the same tables."""
    if request.param == "sqlite":
        yield first_sqlite_url
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = server.new_database()
    migrate.upgrade(server.url(name), FIRST)
    copy_rows(first_sqlite_url, server.url(name))
    yield server.url(name)
    server.drop_database(name)


def tables_of(connection: Connection) -> dict[str, Any]:
    """The tables as they are in this database, each column with the type that the code gives it."""
    known = {found.name: dict(found.c) for found in metadata.sorted_tables}
    shapes = {}
    for name in inspect(connection).get_table_names():
        if name in known:
            names = [part["name"] for part in inspect(connection).get_columns(name)]
            types: dict[str, Any] = {
                part: known[name][part].type if part in known[name] else DROPPED[part]
                for part in names
            }
            shapes[name] = table(name, *(column(part, kind) for part, kind in types.items()))
    return {
        found.name: shapes[found.name] for found in metadata.sorted_tables if found.name in shapes
    }


def copy_rows(source_url: str, target_url: str) -> None:
    source, target = Database(source_url), Database(target_url)
    with source.read() as reading, target.write() as writing:
        for name, shape in tables_of(reading).items():
            rows = [dict(row._mapping) for row in reading.execute(select(shape))]
            # A corrected rate names the one that replaced it, which must be there first.
            rows.sort(key=lambda row: row.get("superseded_by") is not None)
            if rows and name != "team":
                writing.execute(shape.insert(), rows)
    source.close()
    target.close()


def read_rows(
    url: str, names: dict[str, list[str]] | None = None
) -> tuple[Rows, dict[str, list[str]]]:
    """All rows as sorted text, of the columns given or of all, and the columns by table."""
    database = Database(url)
    rows: Rows = {}
    columns: dict[str, list[str]] = {}
    with database.read() as connection:
        for name, shape in tables_of(connection).items():
            wanted = [part.name for part in shape.c] if names is None else names.get(name, [])
            if wanted:
                found = connection.execute(select(*(shape.c[part] for part in wanted)))
                rows[name] = sorted(tuple(map(repr, row)) for row in found)
                columns[name] = wanted
    database.close()
    return rows, columns


def without_dropped(rows: Rows, columns: dict[str, list[str]]) -> Rows:
    """The rows without the columns that the second version has no more."""
    return {
        name: sorted(
            tuple(
                value for part, value in zip(columns[name], row, strict=True) if part not in DROPPED
            )
            for row in found
        )
        for name, found in rows.items()
    }


def kept_columns(columns: dict[str, list[str]]) -> dict[str, list[str]]:
    return {
        name: [part for part in parts if part not in DROPPED] for name, parts in columns.items()
    }


def test_upgrade_keeps_every_row(first_url: str, recorded: Recorded) -> None:
    before, columns = read_rows(first_url)
    numbers = {name: len(found) for name, found in before.items()}
    assert numbers == {k: n for k, n in recorded["rows"].items() if k != "alembic_version"}
    migrate.upgrade(first_url)
    assert migrate.current(first_url) == migrate.head()
    after, _ = read_rows(first_url, kept_columns(columns))
    expected = without_dropped(before, columns)
    assert list(after) == list(expected)
    for name, rows in expected.items():
        assert after[name] == rows, name


def test_downgrade_keeps_every_row_too(first_url: str) -> None:
    before, columns = read_rows(first_url)
    migrate.upgrade(first_url)
    migrate.downgrade(first_url, FIRST)
    assert migrate.current(first_url) == FIRST
    _, found = read_rows(first_url)
    assert {name: set(parts) for name, parts in found.items()} == {
        name: set(parts) for name, parts in columns.items()
    }
    after, _ = read_rows(first_url, kept_columns(columns))
    for name, rows in without_dropped(before, columns).items():
        assert after[name] == rows, name


def test_new_columns_say_what_an_old_batch_is(first_url: str) -> None:
    migrate.upgrade(first_url)
    database = Database(first_url)
    with database.read() as connection:
        batch = metadata.tables["scenario_batch"]
        rows = connection.execute(select(batch)).all()
        ledger = connection.execute(select(metadata.tables["chunk_ledger"])).all()
    database.close()
    assert len(rows) == 8
    for row in rows:
        assert (row.priority, row.deadline_at, row.deleted_at) == (5, None, None)
        assert (row.reused_from, row.retry_of, row.enqueued_version) == (None, None, None)
    assert [(row.worker, row.failure) for row in ledger] == [(None, None)] * 7


def covers(found: Any, old: Any, path: str = "") -> Iterator[str]:
    """Where the old answer is not in the new one: a new field may be added, nothing may change."""
    if isinstance(old, dict) and isinstance(found, dict):
        for name, value in old.items():
            if name == "next_page_token":
                if (found.get(name) is None) != (value is None):
                    yield f"{path}/{name}"
            elif name not in found:
                yield f"{path}/{name} is missing"
            else:
                yield from covers(found[name], value, f"{path}/{name}")
    elif isinstance(old, list) and isinstance(found, list) and len(old) == len(found):
        for place, value in enumerate(old):
            yield from covers(found[place], value, f"{path}/{place}")
    elif found != old:
        yield f"{path}: {old!r} became {found!r}"


def test_old_batches_are_answered_as_before(first_url: str, recorded: Recorded) -> None:
    migrate.upgrade(first_url)
    database = Database(first_url)
    app = create_app(Settings(database_url=first_url), database)

    async def ask() -> dict[str, httpx.Response]:
        # Without the app's lifespan: nothing computes, so nothing changes.
        transport = httpx.ASGITransport(app=cast("Any", app))
        address = "http://127.0.0.1:8000"
        async with httpx.AsyncClient(transport=transport, base_url=address) as client:
            return {url: await client.get(url) for url in recorded["answers"]}

    answers = anyio.run(ask)
    database.close()
    assert len(answers) > 30
    for url, old in recorded["answers"].items():
        assert answers[url].status_code == 200, (url, answers[url].text)
        assert list(covers(answers[url].json(), old)) == [], url


def test_a_batch_that_the_first_version_left_half_done_is_finished(
    first_url: str, recorded: Recorded
) -> None:
    migrate.upgrade(first_url)
    database = Database(first_url)
    ids = {name: UUID(batch_id) for name, batch_id in recorded["batches"].items()}
    with database.read() as connection:
        half = read_columns(connection, ids["running"], ["gpu_hours_lost"])["gpu_hours_lost"]
    assert len(half) == 50_000
    complete(database)
    with database.read() as connection:
        batch = metadata.tables["scenario_batch"]
        states = {row.id: row.state for row in connection.execute(select(batch))}
        names = ["point", "failure", "item", "compute_ms", "num_gpus", *COLUMN_NAMES]
        found = read_columns(connection, ids["running"], names)
        twin = read_columns(connection, ids["twin_of_running"], names)
    database.close()
    assert {name: states[batch_id] for name, batch_id in ids.items()} == {
        "succeeded": "succeeded",
        "succeeded_later": "succeeded",
        "partially_failed": "partially_failed",
        "twin_of_running": "partially_failed",
        "running": "partially_failed",
        "canceled": "canceled",
        "queued": "succeeded",
        "canceled_while_queued": "canceled",
    }
    assert found["point"].tolist() == list(range(60_000))
    assert found["gpu_hours_lost"][:50_000].tobytes() == half.tobytes()
    for name in names:
        # The first chunk is the first version's, the rest is computed by this one.
        first, rest = found[name][:50_000], found[name][50_000:]
        assert first.tobytes() == twin[name][:50_000].tobytes(), name
        np.testing.assert_allclose(rest, twin[name][50_000:], rtol=1e-8, err_msg=name)
