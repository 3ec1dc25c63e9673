"""Exported files: asked for, looked at, read in ranges, deleted; on both databases."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from service.db import export_files as rows
from service.db.engine import Database
from service.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
)
from service.jobs import export_files, export_making, export_removal
from service.jobs.actors import Actor
from service.jobs.export_documents import ComparisonIn, ExportIn
from service.jobs.tasks import TASKS
from tests.jobs.batch_bodies import ACTOR, item, speeds, submit
from tests.jobs.completed import complete
from tests.jobs.export_bodies import (
    FORMATS,
    a_profile_with_a_rate,
    ask,
    look_at,
    make,
    num_parts,
    priced_batch,
    run,
    stored_bytes,
    written,
)
from tests.reports.export_readers import READERS

SMALL_PARTS = 1_000
NOBODY = Actor(team_id=UUID(int=7), name="nobody")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small file has many parts."""
    monkeypatch.setattr(export_making, "PART_BYTES", SMALL_PARTS)


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_holds_what_is_streamed(database: Database, format_name: str) -> None:
    a_profile_with_a_rate(database)
    priced_batch(database)
    made = make(database, format=format_name)
    data = stored_bytes(database, made.id)
    assert data == written(database, format=format_name)
    assert (made.state, made.rows, made.bytes) == ("succeeded", 16, len(data))
    assert made.sha256 == hashlib.sha256(data).hexdigest()
    assert num_parts(database, made.id) == -(-len(data) // SMALL_PARTS) > 1
    assert len(READERS[format_name](data)) == 16


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_empty_file_is_a_file(database: Database, format_name: str) -> None:
    made = make(database, format=format_name, name="nobody")
    assert (made.state, made.rows) == ("succeeded", 0)
    data = stored_bytes(database, made.id)
    assert made.sha256 == hashlib.sha256(data).hexdigest()
    assert READERS[format_name](data) == []
    assert (len(data) == 0) == (format_name == "jsonl")


def test_a_file_is_waited_for(database: Database) -> None:
    run(database, item())
    export_id = ask(database, format="jsonl")
    queued = look_at(database, export_id)
    assert (queued.state, queued.rows, queued.sha256, queued.content_url) == (
        "queued",
        0,
        None,
        None,
    )
    with database.read() as connection, pytest.raises(ConflictError, match="is queued") as caught:
        export_files.stored_file(connection, ACTOR, export_id)
    assert caught.value.problem == "export-not-finished"
    complete(database)
    made = look_at(database, export_id)
    assert made.state == "succeeded"
    assert made.content_url == f"/v1/exports/{export_id}/content"
    assert made.version > queued.version
    assert made.running_at is not None
    assert made.ended_at is not None
    assert made.created_at <= made.running_at <= made.ended_at
    assert made.expires_at == made.ended_at + timedelta(days=7)


def test_the_sidecar_says_what_the_file_holds(database: Database) -> None:
    a_profile_with_a_rate(database)
    batch = priced_batch(database)
    run(database, item(name="another"))
    made = make(
        database, format="parquet", batch=batch.id, where=("num_gpus:ge:64",), order_by="-point"
    )
    with database.read() as connection:
        told = export_files.sidecar(connection, ACTOR, made.id)
    assert (told.rows, told.bytes, told.sha256) == (10, made.bytes, made.sha256)
    assert told.query == {
        "batch": str(batch.id),
        "where": ["num_gpus:ge:64"],
        "order_by": "-point",
        "format": "parquet",
    }
    assert (told.file_name, told.media_type) == (
        "trainard-results.parquet",
        "application/vnd.apache.parquet",
    )
    (only,) = told.batches
    assert (only.id, only.pricing, only.currency) == (batch.id, 1, "EUR")
    assert only.rates_as_of is not None
    assert told.model_versions == [batch.model_version]
    units = {column.name: column.unit for column in told.columns}
    assert units["gpu_hours_lost"] == "GPU-hours"
    assert list(READERS["parquet"](stored_bytes(database, made.id))[0]) == list(units)
    assert made.running_at is not None
    assert made.ended_at is not None
    assert made.running_at <= told.snapshot_at <= made.ended_at


def test_a_comparison_is_made_into_a_file(database: Database) -> None:
    a_profile_with_a_rate(database)
    past = priced_batch(database)
    new = priced_batch(database, overrides={"slow_groups": []})
    comparison = ComparisonIn(baseline=past.id, candidate=new.id, order_by="-past.gpu_hours_lost")
    made = make(database, format="arrow", comparison=comparison)
    data = stored_bytes(database, made.id)
    assert data == written(database, format="arrow", comparison=comparison)
    with database.read() as connection:
        told = export_files.sidecar(connection, ACTOR, made.id)
    assert told.file_name == "trainard-comparison.arrows"
    assert [batch.id for batch in told.batches] == [past.id, new.id]


@pytest.mark.parametrize("format_name", FORMATS)
def test_any_range_is_read_from_the_parts_that_hold_it(
    database: Database, format_name: str
) -> None:
    run(database, item(axes=[speeds(40)]))
    made = make(database, format=format_name)
    whole = stored_bytes(database, made.id)
    edges = [0, 1, SMALL_PARTS - 1, SMALL_PARTS, SMALL_PARTS + 1, 3 * SMALL_PARTS, len(whole)]
    assert len(whole) > 3 * SMALL_PARTS
    for first in edges:
        for stop in edges:
            assert stored_bytes(database, made.id, first, stop) == whole[first:stop]


def test_what_was_read_before_a_break_goes_on_with_the_rest(database: Database) -> None:
    run(database, item(axes=[speeds(40)]))
    made = make(database)
    with database.read() as connection:
        file = export_files.stored_file(connection, ACTOR, made.id)
    parts = export_files.content(database, file, 0, file.num_bytes)
    begun = next(parts) + next(parts)
    resumed = begun + stored_bytes(database, made.id, len(begun), file.num_bytes)
    assert hashlib.sha256(resumed).hexdigest() == made.sha256
    assert hashlib.sha256(begun).hexdigest() != made.sha256


def test_a_deleted_file_is_gone_at_once_and_its_bytes_soon(database: Database) -> None:
    run(database, item(axes=[speeds(40)]))
    made = make(database)
    with database.read() as connection:
        file = export_files.stored_file(connection, ACTOR, made.id)
    reading = export_files.content(database, file, 0, file.num_bytes)
    next(reading)
    with database.write() as connection:
        with pytest.raises(PreconditionFailedError):
            export_files.delete(connection, ACTOR, made.id, expected_version=made.version - 1)
        export_files.delete(connection, ACTOR, made.id, expected_version=made.version)
    with pytest.raises(NotFoundError):
        look_at(database, made.id)
    assert num_parts(database, made.id) > 0
    complete(database)
    assert num_parts(database, made.id) == 0
    with database.read() as connection:
        assert rows.find_file(connection, made.id) is None
    with pytest.raises(NotFoundError, match="deleted while it was read"):
        list(reading)


def test_a_file_expires(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    run(database, item())
    kept = make(database)
    monkeypatch.setattr(export_files, "KEPT_DAYS", -1)
    expired = ask(database)
    export_making.run(database, expired)
    assert num_parts(database, expired) > 0
    for read in (look_at, stored_bytes):
        with pytest.raises(NotFoundError, match="files are kept"):
            read(database, expired)
    task = TASKS["export-removal"]
    with database.read() as connection:
        assert task.unsent(connection, 1) == [expired]
    complete(database)
    with database.write() as connection:
        assert rows.find_file(connection, expired) is None
        task.mark_sent(connection, [expired], 1)
    assert look_at(database, kept.id).state == "succeeded"


def test_a_removal_is_sent_once_to_each_version(database: Database) -> None:
    run(database, item())
    made = make(database)
    task = TASKS["export-removal"]
    with database.write() as connection:
        assert task.unsent(connection, 1) == []
        export_files.delete(connection, ACTOR, made.id, expected_version=made.version)
        assert task.unsent(connection, 1) == [made.id]
        task.mark_sent(connection, [made.id], 1)
        assert task.unsent(connection, 1) == []
        assert task.unsent(connection, 2) == [made.id]
        task.fail(connection, made.id, "the disk is full")
        row = rows.find_file(connection, made.id)
    assert row is not None
    assert row.failure == "the disk is full"
    export_removal.run(database, made.id)
    export_removal.run(database, made.id)
    with database.read() as connection:
        assert rows.find_file(connection, made.id) is None


def test_a_file_that_is_kept_is_not_removed(database: Database) -> None:
    made = make(database)
    export_removal.run(database, made.id)
    assert look_at(database, made.id).state == "succeeded"


def test_files_belong_to_a_team(database: Database) -> None:
    made = make(database)
    with database.write() as connection:
        for use in (export_files.get, export_files.stored_file, export_files.sidecar):
            with pytest.raises(NotFoundError):
                use(connection, NOBODY, made.id)
        with pytest.raises(NotFoundError):
            export_files.delete(connection, NOBODY, made.id, expected_version=made.version)


def test_what_cannot_be_made_is_refused(database: Database) -> None:
    waiting = submit(database, item())
    faulty: list[dict[str, Any]] = [
        {"where": ("colour:eq:1",)},
        {"order_by": "colour"},
        {"where": ("num_gpus",)},
    ]
    for query in faulty:
        with pytest.raises(InvalidError) as caught:
            ask(database, **query)
        assert caught.value.errors[0].code == "invalid_filter"
    with pytest.raises(ConflictError):
        ask(database, batch=waiting.id)
    with pytest.raises(NotFoundError):
        ask(database, batch=ACTOR.team_id)
    with pytest.raises(NotFoundError):
        ask(database, comparison=ComparisonIn(baseline=ACTOR.team_id, candidate=waiting.id))
    with pytest.raises(InvalidError, match="stands beside comparison"):
        ask(
            database,
            num_gpus_min=1,
            comparison=ComparisonIn(baseline=waiting.id, candidate=waiting.id),
        )
    with database.read() as connection:
        assert TASKS["export"].unsent(connection, 1) == []


def test_only_so_many_files_wait(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_files, "MAX_UNFINISHED", 2)
    first = ask(database)
    ask(database)
    with pytest.raises(UnavailableError, match="2 files wait") as caught:
        ask(database)
    assert caught.value.problem == "queue-full"
    export_making.run(database, first)
    with database.write() as connection:
        assert export_files.create(connection, ACTOR, ExportIn()).state == "queued"


def test_expiry_is_a_week_later() -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    assert export_files.expiry(now) == datetime(2026, 12, 8, tzinfo=UTC)
