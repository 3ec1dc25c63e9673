"""The list of failed points: rules and lost chunks, in one order, page by page."""

from typing import Any

import pytest

from service.db.engine import Database
from service.errors import MalformedError
from service.jobs import point_faults
from service.jobs.batch_documents import BatchOut, PointFaultOut, PointFaultPage
from service.jobs.chunks import CHUNK_POINTS
from tests.jobs.batch_bodies import ACTOR, SEED, SIZES, cancel, item, read, run, speeds, submit
from tests.jobs.chunk_steps import end, record

LOST = "its process was killed 3 times"
TOO_MANY: dict[str, Any] = {**SEED, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]}


def page(
    database: Database, batch: BatchOut, size: int, token: str | None = None
) -> PointFaultPage:
    with database.read() as connection:
        return point_faults.list_faults(
            connection, ACTOR, batch.id, page_size=size, page_token=token
        )


def pages(database: Database, batch: BatchOut, size: int) -> list[PointFaultOut]:
    found: list[PointFaultOut] = []
    token = None
    while True:
        part = page(database, batch, size, token)
        assert part.errors_total == read(database, batch.id).points_failed
        assert len(part.items) <= size
        found += part.items
        token = part.next_page_token
        if token is None:
            return found


def test_points_that_break_a_rule_are_listed_with_their_reason(database: Database) -> None:
    batch = run(database, item(scenario=TOO_MANY, axes=[SIZES]), item(custom_id="sound"))
    found = pages(database, batch, 3)
    assert [fault.inputs["num_gpus"] for fault in found] == [8, 16, 32, 64]
    assert {fault.code for fault in found} == {"too_many_slow_gpus"}
    assert found[3].detail == "70 slow GPUs, but num_gpus is 64"


def three_chunks(database: Database) -> BatchOut:
    """Rule failures at 0-3, 49 999 sound points, and again at 60 000 and up, and at the end.

    Items: 15 points, 59 985 points (0 … 59 999 together), 15 points, 60 000 points, 15 points.
    """
    return submit(
        database,
        item(custom_id="a", scenario=TOO_MANY, axes=[SIZES]),
        item(custom_id="b", axes=[speeds(59_985)]),
        item(custom_id="c", scenario=TOO_MANY, axes=[SIZES]),
        item(custom_id="d", axes=[speeds(60_000)]),
        item(custom_id="e", scenario=TOO_MANY, axes=[SIZES]),
    )


def test_a_lost_chunk_stands_in_order_among_the_rules(database: Database) -> None:
    batch = three_chunks(database)
    record(database, batch.id, 0)
    record(database, batch.id, 1, failure=LOST)
    record(database, batch.id, 2)
    end(database, batch.id)
    found = pages(database, batch, 20_000)
    lost = range(CHUNK_POINTS, 2 * CHUNK_POINTS)
    last = 120_015
    assert [fault.point for fault in found] == [
        *range(4),
        *lost,
        *range(last, last + 4),
    ]
    assert len(found) == read(database, batch.id).points_failed
    assert {fault.code for fault in found[4:-4]} == {"chunk_not_computed"}
    assert {fault.detail for fault in found[4:-4]} == {LOST}
    by_item = {fault.custom_id for fault in found[4:-4]}
    assert by_item == {"b", "c", "d"}
    second = next(fault for fault in found if fault.custom_id == "c")
    assert (second.point, second.item, second.inputs) == (60_000, 2, {"num_gpus": 8})


def test_the_last_page_and_a_page_over_the_chunks_border_are_exact(database: Database) -> None:
    batch = three_chunks(database)
    record(database, batch.id, 0)
    record(database, batch.id, 1, failure=LOST)
    record(database, batch.id, 2)
    end(database, batch.id)
    first = page(database, batch, 4)
    assert first.next_page_token is not None
    second = page(database, batch, 2, first.next_page_token)
    assert [fault.point for fault in second.items] == [CHUNK_POINTS, CHUNK_POINTS + 1]


def test_a_page_of_a_lost_chunk_works_out_its_own_points_only(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(**fields: Any) -> PointFaultOut:
        made.append(fields["point"])
        return PointFaultOut(**fields)

    batch = submit(sqlite_database, item(axes=[speeds(CHUNK_POINTS)]))
    record(sqlite_database, batch.id, 0, failure=LOST)
    end(sqlite_database, batch.id)
    monkeypatch.setattr(point_faults, "PointFaultOut", counted)
    assert [fault.point for fault in page(sqlite_database, batch, 5).items] == [0, 1, 2, 3, 4]
    assert made == [0, 1, 2, 3, 4, 5]


def test_points_that_were_never_reached_have_no_fault(database: Database) -> None:
    batch = three_chunks(database)
    record(database, batch.id, 1)
    cancel(database, batch.id)
    end(database, batch.id)
    found = pages(database, batch, 3)
    assert [fault.point for fault in found] == [60_000, 60_001, 60_002, 60_003]


def test_a_token_belongs_to_its_batch(database: Database) -> None:
    batches = [
        run(database, item(custom_id=name, scenario=TOO_MANY, axes=[SIZES])) for name in ("a", "b")
    ]
    token = page(database, batches[0], 1).next_page_token
    with pytest.raises(MalformedError):
        page(database, batches[1], 1, token)
