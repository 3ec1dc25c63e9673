"""A database that the first version wrote is upgraded, and taken back, without losing a row.

The files in `first_version` were made by that version's own code; `make.py.txt` says how.
"""

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import anyio
import httpx
import numpy as np
import pytest
from sqlalchemy import select

from service.app import create_app
from service.db import batches, migrate
from service.db.blocks import read_columns
from service.db.engine import Database
from service.db.tables import metadata
from service.jobs import exports
from service.jobs.actors import Actor
from service.jobs.batches import submit
from service.jobs.comparison_sides import grids_of
from service.jobs.comparisons import ComparisonQuery, compare
from service.jobs.export_documents import ExportIn
from service.jobs.history_documents import HistoryQuery
from service.jobs.loss_histories import history
from service.jobs.result_queries import ResultsQuery
from service.jobs.results import list_page
from service.model import MODEL_VERSION
from service.model.results import COLUMN_NAMES
from service.settings import Limits, Settings
from tests.conftest import PostgresServer
from tests.first_version_rows import copy_rows, kept_columns, read_rows, without_dropped
from tests.jobs.completed import complete
from tests.reports.export_readers import READERS

NOW = datetime(2026, 12, 31, tzinfo=UTC)

FOLDER = Path(__file__).parent / "first_version"
FIRST = "0001"
# Columns of this version's model that every point has.
NEW_EVERYWHERE = ("gpu_hours_persistent", "gpu_hours_lost_p90", "time_ratio_fraction")

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


def recorded_columns(recorded: Recorded) -> list[str]:
    """The output columns that the first version had."""
    answer = next(
        answer for url, answer in recorded["answers"].items() if url.startswith("/v1/results/")
    )
    return list(answer["result"]["result"])


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
    outputs = recorded_columns(recorded)
    for name in ["point", "failure", "item", "compute_ms", "num_gpus", *outputs]:
        # The first chunk is the first version's, the rest is computed by this one.
        first, rest = found[name][:50_000], found[name][50_000:]
        assert first.tobytes() == twin[name][:50_000].tobytes(), name
        np.testing.assert_allclose(rest, twin[name][50_000:], rtol=1e-8, err_msg=name)
    computed = found["failure"] == 0
    for name in NEW_EVERYWHERE:
        assert np.isnan(twin[name]).all(), name
        assert np.isnan(found[name][:50_000]).all(), name
        np.testing.assert_array_equal(np.isfinite(found[name][50_000:]), computed[50_000:])


def rerun(database: Database, batch_id: UUID) -> UUID:
    """The same items as a new batch, computed by the model of today."""
    with database.write() as connection:
        items = batches.list_items(connection, [batch_id])
        document = {
            "name": "again",
            "start_on": "2026-12-01",
            "currency": "EUR",
            "items": [
                {
                    "custom_id": item.custom_id,
                    "name": item.name,
                    "profile": f"{item.profile_slug}@{item.profile_revision}",
                    "overrides": {
                        path: value
                        for path, value in item.scenario.items()
                        if path not in {"seed", "draws"}
                    },
                    "axes": item.axes,
                    "headline": grids_of([item])[0].inputs_at(
                        item.headline_point - item.first_point
                    ),
                }
                for item in items
                if item.profile_slug is not None and item.headline_point is not None
            ],
        }
        batch = submit(connection, Actor(), document, Limits())
    assert batch.reused_from is None
    assert batch.model_version == MODEL_VERSION != "1.0"
    complete(database)
    return batch.id


def test_an_old_batch_has_no_value_in_new_columns(first_url: str, recorded: Recorded) -> None:
    migrate.upgrade(first_url)
    database = Database(first_url)
    batch_id = UUID(recorded["batches"]["succeeded"])
    outputs = recorded_columns(recorded)
    with database.read() as connection:
        for where, expected in {
            "gpu_hours_lost_p90:is_null:true": True,
            "gpu_hours_lost_p90:gt:0": False,
            "is_extrapolated:eq:false": False,
            "spread_method:is_null:true": True,
            "spread_method:eq:quadrature": False,
            "gpus_per_node:eq:8": True,
            "synchronization.kind:eq:every_step": True,
            "num_spare_gpus:gt:0": False,
            "failures:is_null:true": True,
            "variability.node:is_null:false": False,
        }.items():
            query = ResultsQuery(batch=batch_id, where=(where,), page_size=1000)
            found = list_page(connection, Actor(), query).items
            assert bool(found) is expected, where
            for row in found:
                shown = {name: getattr(row.result, name) for name in COLUMN_NAMES}
                assert {name for name, value in shown.items() if value is None} >= set(
                    COLUMN_NAMES
                ) - set(outputs)
                assert shown["gpu_hours_lost"] is not None
    database.close()


@pytest.mark.parametrize("file_format", ["csv", "jsonl", "parquet", "arrow"])
def test_an_old_batch_is_exported_with_the_new_columns_empty(
    first_sqlite_url: str, recorded: Recorded, file_format: Any
) -> None:
    migrate.upgrade(first_sqlite_url)
    database = Database(first_sqlite_url)
    old_id = UUID(recorded["batches"]["succeeded"])
    new_id = rerun(database, old_id)
    outputs = set(recorded_columns(recorded))
    with database.read() as connection:
        parts = [
            exports.extract(connection, Actor(), ExportIn(format=file_format, batch=batch_id))
            for batch_id in (old_id, new_id)
        ]
        old, new = (
            READERS[file_format](b"".join(part.written(ExportIn(format=file_format))))
            for part in parts
        )
    database.close()
    assert len(old) == len(new) > 0
    for row in old:
        assert {name for name in COLUMN_NAMES if row[name] in {None, ""}} == (
            set(COLUMN_NAMES) - outputs
        )
    for name in NEW_EVERYWHERE:
        assert all(row[name] not in {None, ""} for row in new), name


def test_old_and_new_batches_are_compared(first_url: str, recorded: Recorded) -> None:
    migrate.upgrade(first_url)
    database = Database(first_url)
    old_id = UUID(recorded["batches"]["succeeded"])
    new_id = rerun(database, old_id)
    with database.read() as connection:
        query = ComparisonQuery(baseline=old_id, candidate=new_id)
        found = compare(connection, Actor(), query, page_size=1000)
        runs = history(connection, Actor(), HistoryQuery(scenario="one slow GPU"), NOW).items
    database.close()
    assert found.matched > 0
    for row in found.items:
        assert row.difference["gpu_hours_lost"] == 0
        assert row.difference["gpu_hours_slow_groups"] == 0
        assert row.past["gpu_hours_persistent"] is None
        assert row.new["gpu_hours_persistent"] == 0
        assert row.difference["gpu_hours_persistent"] is None
        assert row.past["gpu_hours_lost_p90"] is None
        error = row.standard_error["gpu_hours_lost"]
        assert (error.past, error.new, error.difference) == (None, 0, None)
        assert row.sampling == "exact"
    assert found.summary.gpu_hours_lost.difference == 0
    newest = runs[-1]
    assert newest.batch_id == new_id
    assert newest.gpu_hours_lost_p10 is not None
    assert runs[0].gpu_hours_lost_p10 is None
    assert newest.change is not None
    assert newest.change.model_version_changed is True
    # The run before had waited in the queue: it was computed by the model of today.
    assert newest.change.standard_error_per_30_days == 0
    assert newest.change.sampling == "exact"


def test_a_populated_database_goes_down_and_up_again(first_url: str, recorded: Recorded) -> None:
    migrate.upgrade(first_url)
    database = Database(first_url)
    new_id = rerun(database, UUID(recorded["batches"]["succeeded"]))
    migrate.downgrade(first_url, "0004")
    migrate.upgrade(first_url)
    with database.read() as connection:
        summaries = metadata.tables["result_summary"]
        found = connection.execute(select(summaries).where(summaries.c.batch_id == new_id)).all()
        batch = batches.get_batch(connection, Actor().team_id, new_id)
    database.close()
    assert len(found) > 0
    # What only the newer tables have is gone; the blocks still hold it.
    assert {row.gpu_hours_lost_p90 for row in found} == {None}
    assert batch is not None
    assert batch.chunk_points == 50_000
