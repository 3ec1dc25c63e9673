"""Retries: exactly the items that were not computed, and the first batch as it was."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from service.db.engine import Database
from service.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from service.jobs.batch_documents import BatchOut, RetryIn
from service.jobs.batch_retries import retry
from service.settings import Limits
from tests.jobs.batch_bodies import (
    ACTOR,
    LIMITS,
    SEED,
    SIZES,
    cancel,
    item,
    read,
    rows,
    run,
    speeds,
    submit,
)
from tests.jobs.chunk_steps import end, record
from tests.jobs.completed import complete

LOST = "it kills its process"


def four_items() -> list[dict[str, Any]]:
    """Points 0-1, 2-30 001, 30 002-60 001 (over the first chunk's end) and 60 002-60 016."""
    return [
        item(custom_id="a", axes=[{"path": "num_gpus", "values": [8, 16]}]),
        item(custom_id="b", axes=[speeds(30_000)]),
        item(custom_id="c", axes=[speeds(30_000)]),
        item(custom_id="d", axes=[SIZES]),
    ]


def retried(database: Database, batch_id: UUID, **body: Any) -> BatchOut:
    with database.write() as connection:
        return retry(connection, ACTOR, batch_id, RetryIn(**body), LIMITS)


def test_what_a_canceled_batch_left_is_computed(database: Database) -> None:
    batch = submit(
        database, *four_items(), name="sizing", currency="EUR", start_on="2026-12-01", priority=2
    )
    record(database, batch.id, 0)
    cancel(database, batch.id)
    end(database, batch.id)
    before = read(database, batch.id)
    again = retried(database, batch.id)
    assert (again.retry_of, again.state, again.name) == (batch.id, "queued", "sizing")
    assert (again.priority, again.currency) == (2, "EUR")
    assert again.start_on == batch.start_on
    assert (again.counts.total, again.points_total) == (2, 30_015)
    assert again.input_digest != batch.input_digest
    complete(database)
    assert read(database, again.id).state == "succeeded"
    found = rows(database, batch=again.id, order_by="-item", page_size=16)
    assert [row.custom_id for row in found] == ["d"] * 15 + ["c"]
    assert round(
        next(r.result.gpu_hours_lost for r in found if r.inputs == {"num_gpus": 1024})
    ) == (176_008)
    assert read(database, batch.id) == before


def test_items_of_a_lost_chunk_are_computed(database: Database) -> None:
    batch = submit(database, *four_items())
    record(database, batch.id, 0)
    record(database, batch.id, 1, failure=LOST)
    end(database, batch.id)
    assert read(database, batch.id).state == "partially_failed"
    again = retried(database, batch.id, priority=1, deadline_at=in_seconds(3600))
    assert (again.counts.total, again.priority) == (2, 1)
    assert again.deadline_at is not None
    complete(database)
    assert read(database, again.id).state == "succeeded"


def test_a_wholly_failed_and_an_expired_batch_can_be_retried(database: Database) -> None:
    failed = submit(database, item())
    record(database, failed.id, 0, failure=LOST)
    end(database, failed.id)
    assert read(database, failed.id).failure == LOST
    late = submit(database, item(), deadline_at=in_seconds(0.3))
    time.sleep(0.4)
    end(database, late.id)
    assert read(database, late.id).state == "expired"
    for batch in (failed, late):
        again = retried(database, batch.id)
        assert (again.retry_of, again.points_total, again.deadline_at) == (batch.id, 1, None)
    complete(database)
    assert read(database, again.id).state == "succeeded"


def in_seconds(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_a_retry_that_fails_is_retried_itself(database: Database) -> None:
    batch = submit(database, item())
    record(database, batch.id, 0, failure=LOST)
    end(database, batch.id)
    second = retried(database, batch.id)
    record(database, second.id, 0, failure=LOST)
    end(database, second.id)
    third = retried(database, second.id)
    assert third.retry_of == second.id
    complete(database)
    assert read(database, third.id).state == "succeeded"


def test_warnings_go_with_their_items(database: Database) -> None:
    rounded = {"path": "num_gpus", "logspace": {"start": 8, "stop": 10, "num": 5}}
    batch = submit(database, item(custom_id="a", axes=[speeds(50_000)]), item(axes=[rounded]))
    assert [warning.pointer for warning in batch.warnings]
    assert all(warning.pointer.startswith("/items/1/") for warning in batch.warnings)
    record(database, batch.id, 0)
    cancel(database, batch.id)
    end(database, batch.id)
    again = retried(database, batch.id)
    moved = [
        msgspec.structs.replace(warning, pointer=warning.pointer.replace("/items/1/", "/items/0/"))
        for warning in batch.warnings
    ]
    assert again.warnings == moved


def test_nothing_to_retry_says_why(database: Database) -> None:
    whole = run(database, item())
    assert (
        refused(database, whole) == f"batch {whole.id} is succeeded: all of its 1 points are done"
    )
    slow = {**SEED, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]}
    broken = run(database, item(scenario=slow, axes=[SIZES]))
    assert "the 4 that failed break a rule" in refused(database, broken)
    assert f"/v1/scenario-batches/{broken.id}/errors" in refused(database, broken)


def refused(database: Database, batch: BatchOut) -> str:
    with pytest.raises(ConflictError) as caught:
        retried(database, batch.id)
    assert caught.value.problem == "nothing-to-retry"
    return caught.value.detail


def test_what_runs_or_is_not_there_cannot_be_retried(database: Database) -> None:
    batch = submit(database, item())
    with pytest.raises(ConflictError) as caught:
        retried(database, batch.id)
    assert caught.value.problem == "batch-not-finished"
    with pytest.raises(NotFoundError):
        retried(database, UUID(int=7))


def test_a_retry_keeps_to_deadlines_and_to_the_queues_limit(database: Database) -> None:
    batch = submit(database, item())
    cancel(database, batch.id)
    with pytest.raises(InvalidError) as caught:
        retried(database, batch.id, deadline_at=in_seconds(-1))
    assert caught.value.errors[0].code == "deadline_passed"
    submit(database, item(custom_id="waits"))
    limits = Limits(unfinished_batches=1)
    with database.write() as connection, pytest.raises(UnavailableError) as full:
        retry(connection, ACTOR, batch.id, RetryIn(), limits)
    assert full.value.problem == "queue-full"
