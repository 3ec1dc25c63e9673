"""Batches through the use cases, on both databases: what goes in, what is stored, what fails."""

import time
from datetime import UTC, date, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

import pytest

from service.db import batches as batch_rows
from service.db.engine import Database
from service.errors import (
    ConflictError,
    InvalidError,
    MalformedError,
    NotFoundError,
    UnavailableError,
)
from service.jobs import batches, results
from service.jobs.actors import Actor
from service.jobs.batch_documents import TERMINAL_STATES, BatchState
from service.jobs.result_queries import ResultsQuery
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


def faults(database: Database, *items: Any, **changes: Any) -> dict[str, str]:
    with pytest.raises(InvalidError) as caught:
        submit(database, *items, **changes)
    with database.read() as connection:
        assert batches.list_page(connection, ACTOR, page_size=1, page_token=None).items == []
    return {fault.pointer: fault.code for fault in caught.value.errors}


def test_a_batch_gives_the_founding_pages_figures(database: Database) -> None:
    batch = run(database, item(axes=[SIZES]), start_on="2026-12-01", metadata={"ticket": "CAP-12"})
    assert batch.state == "succeeded"
    assert batch.counts.succeeded == batch.counts.total == 1
    assert batch.points_done == batch.points_total == 15
    assert batch.start_on == date(2026, 12, 1)
    lost = {row.inputs["num_gpus"]: row.result.gpu_hours_lost for row in rows(database)}
    assert round(lost[64]) == 11_001
    assert round(lost[1024]) == 176_008
    assert list(lost) == [2**power for power in range(3, 18)]


def test_states_and_times_follow_each_other(database: Database) -> None:
    batch = submit(database, item())
    assert (batch.state, batch.counts.pending) == ("queued", 1)
    with database.read() as connection, pytest.raises(ConflictError) as caught:
        results.list_page(connection, ACTOR, ResultsQuery(batch=batch.id))
    assert caught.value.problem == "batch-not-finished"
    complete(database)
    ended = read(database, batch.id)
    assert ended.running_at is not None
    assert ended.ended_at is not None
    assert ended.queued_at <= ended.running_at <= ended.ended_at
    assert ended.version > batch.version


def test_points_that_break_a_rule_fail_alone(database: Database) -> None:
    slow = {**SEED, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]}
    batch = run(database, item(scenario=slow, axes=[SIZES]), item(custom_id="sound"))
    assert batch.state == "partially_failed"
    assert (batch.points_done, batch.points_failed) == (16, 4)
    assert (batch.counts.succeeded, batch.counts.failed) == (2, 0)
    assert min(row.inputs["num_gpus"] for row in rows(database) if row.inputs) == 128


def test_every_fault_of_every_item_is_named(database: Database) -> None:
    found = faults(
        database,
        item(overrides={"slow_groups": [{"count": 2000, "speed_fraction": 0.7}]}),
        item(custom_id="b", scenario={**SEED, "compute_ms": -1, "colour": "red"}),
        item(custom_id="b", axes=[{"path": "num_gpus", "values": []}]),
        item(custom_id="c", profile="nobody"),
        {"custom_id": "d", "profile": "nobody"},
        {"custom_id": "e"},
        {"custom_id": 7, "scenario": SEED},
        item(custom_id="f", headline={"num_gpus": 9}),
        item(custom_id="g", axes=[{"path": "num_gpus", "values": [8, 0]}]),
        item(custom_id="h", start_on="9999-12-30"),
        currency="EUR",
    )
    assert found["/items/0/overrides/slow_groups/0/count"] == "too_many_slow_gpus"
    assert "/items/1/scenario/compute_ms" in found
    assert "/items/1/scenario/colour" in found
    assert found["/items/2/custom_id"] == "duplicate_custom_id"
    assert any(pointer.startswith("/items/2/axes/0") for pointer in found)
    assert found["/items/3/profile"] == "profile_or_scenario"
    assert found["/items/4/profile"] == "unknown_profile"
    assert found["/items/5"] == "profile_or_scenario"
    assert "/items/6/custom_id" in found
    assert found["/items/7/headline"] == "headline_not_on_grid"
    assert "/items/8/axes/0/values/1" in found
    assert found["/items/9/start_on"] == "window_too_late"


def test_limits_are_said_with_their_numbers(database: Database) -> None:
    grid = {"path": "num_gpus", "range": {"start": 1, "stop": 6_000_000, "step": 1}}
    with pytest.raises(InvalidError) as caught:
        submit(database, item(axes=[grid]))
    assert "6000000" in caught.value.errors[0].detail.replace(",", "").replace(" ", "")
    with pytest.raises(InvalidError, match="1001 items, but the limit is 1000"):
        submit(database, *[item(custom_id=f"i{number}") for number in range(1001)])
    with database.write() as connection:
        batches.submit(connection, ACTOR, {"name": "a", "items": [item()]}, LIMITS)
    with database.write() as connection, pytest.raises(UnavailableError, match="limit is 1"):
        batches.submit(
            connection, ACTOR, {"name": "b", "items": [item()]}, Limits(unfinished_batches=1)
        )


def test_an_unknown_currency_is_refused(database: Database) -> None:
    assert faults(database, item(), currency="ABC") == {"/currency": "unknown_currency"}


def test_checking_stores_nothing(database: Database) -> None:
    with database.read() as connection:
        plan = batches.check(
            connection, ACTOR, {"name": "n", "items": [item(axes=[SIZES])]}, LIMITS
        )
    assert (plan.points_total, plan.points_failing, plan.items[0].points) == (15, 0, 15)
    assert plan.items[0].headline_point == 7
    assert plan.items[0].scenario["period_days"] == 30
    assert rows(database) == []


def test_the_headline_is_the_scenarios_size_on_a_pure_size_axis(database: Database) -> None:
    batch = run(database, item(axes=[SIZES]))
    with database.read() as connection:
        stored = batch_rows.list_items(connection, [batch.id])
    assert stored[0].headline_point == 7


def test_cancelling_a_waiting_batch_is_final(database: Database) -> None:
    batch = submit(database, item())
    with database.write() as connection:
        canceled = batches.cancel(connection, ACTOR, batch.id)
    assert (canceled.state, canceled.counts.canceled) == ("canceled", 1)
    assert complete(database) == 0
    with database.write() as connection:
        assert batches.cancel(connection, ACTOR, batch.id).state == "canceled"


def items_of_three_kinds() -> list[dict[str, Any]]:
    """Two points, then a chunk of 50 000 that ends in the middle of the third item."""
    return [
        item(custom_id="a", axes=[{"path": "num_gpus", "values": [8, 16]}]),
        item(custom_id="b", axes=[speeds(30_000)]),
        item(custom_id="c", axes=[speeds(30_000)]),
        item(custom_id="d"),
    ]


def test_counts_sum_to_the_items_in_every_state(database: Database) -> None:
    seen: dict[str, tuple[int, ...]] = {}

    def look(batch_id: UUID) -> None:
        batch = read(database, batch_id)
        counts = batch.counts
        parts = (
            counts.pending,
            counts.running,
            counts.succeeded,
            counts.failed,
            counts.canceled,
        )
        assert sum(parts) == counts.total == 4
        seen[batch.state] = parts

    kept = submit(database, *items_of_three_kinds())
    look(kept.id)
    record(database, kept.id, 0)
    look(kept.id)
    cancel(database, kept.id)
    look(kept.id)
    end(database, kept.id)
    look(kept.id)
    late = submit(database, *items_of_three_kinds(), deadline_at=soon(0.7))
    record(database, late.id, 0)
    time.sleep(0.8)
    assert end(database, late.id)
    look(late.id)
    given_up = submit(database, *items_of_three_kinds())
    record(database, given_up.id, 0)
    record(database, given_up.id, 1, failure="it kills its process")
    end(database, given_up.id)
    look(given_up.id)
    failed = submit(database, *items_of_three_kinds(), reuse=False)
    record(database, failed.id, 0, failure="it kills its process")
    record(database, failed.id, 1, failure="it kills its process")
    end(database, failed.id)
    look(failed.id)
    whole = submit(database, *items_of_three_kinds())
    complete(database)
    look(whole.id)
    assert seen == {
        "queued": (4, 0, 0, 0, 0),
        "running": (1, 1, 2, 0, 0),
        "canceling": (1, 1, 2, 0, 0),
        "canceled": (0, 0, 2, 0, 2),
        "expired": (0, 0, 2, 0, 2),
        # The third item has points in the chunk that was computed, the fourth has none.
        "partially_failed": (0, 0, 3, 1, 0),
        "failed": (0, 0, 0, 4, 0),
        "succeeded": (0, 0, 4, 0, 0),
    }
    assert set(seen) == set(get_args(BatchState))
    assert {state for state in seen if state not in batch_rows.UNFINISHED} == set(TERMINAL_STATES)


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_an_expired_batch_keeps_its_points_and_says_when_it_ended(database: Database) -> None:
    batch = submit(database, *items_of_three_kinds(), deadline_at=soon(0.7))
    record(database, batch.id, 0)
    time.sleep(0.8)
    record(database, batch.id, 1)
    end(database, batch.id)
    late = read(database, batch.id)
    assert (late.state, late.points_done) == ("expired", 50_000)
    assert late.deadline_at is not None
    assert late.ended_at is not None
    assert late.deadline_at <= late.ended_at
    assert len(rows(database, batch=batch.id, where=("num_gpus:le:16",))) == 2
    with database.write() as connection, pytest.raises(ConflictError, match="expired"):
        batches.cancel(connection, ACTOR, batch.id)


def test_priority_and_deadline_are_kept_and_shown(database: Database) -> None:
    plain = submit(database, item())
    assert (plain.priority, plain.deadline_at, plain.reused_from, plain.retry_of) == (
        *(5, None, None, None),
    )
    batch = submit(database, item(), priority=1, deadline_at="2099-01-01T02:00:00+02:00")
    assert batch.priority == 1
    assert batch.deadline_at == datetime(2099, 1, 1, tzinfo=UTC)
    assert batch.events_url == f"/v1/scenario-batches/{batch.id}/events"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"deadline_at": "2026-01-01T00:00:00Z"}, {"/deadline_at": "deadline_passed"}),
        ({"deadline_at": "0001-01-01T00:00:00+14:00"}, {"/deadline_at": "beyond_calendar"}),
        ({"deadline_at": "9999-12-31T23:00:00-14:00"}, {"/deadline_at": "beyond_calendar"}),
        ({"deadline_at": "2099-01-01T00:00:00"}, {"/deadline_at": "wrong_format"}),
        ({"priority": 0}, {"/priority": "out_of_range"}),
        ({"priority": 10}, {"/priority": "out_of_range"}),
        ({"reuse": "no"}, {"/reuse": "wrong_type"}),
    ],
)
def test_what_a_batch_may_not_ask_for(
    sqlite_database: Database, changes: dict[str, Any], found: dict[str, str]
) -> None:
    assert faults(sqlite_database, item(), **changes) == found


def test_an_ended_batch_cannot_be_cancelled(database: Database) -> None:
    batch = run(database, item())
    with database.write() as connection, pytest.raises(ConflictError, match="succeeded"):
        batches.cancel(connection, ACTOR, batch.id)


def test_the_list_of_batches_is_paged_newest_first(database: Database) -> None:
    made = [submit(database, item()).id for _ in range(5)]
    seen: list[UUID] = []
    token = None
    while True:
        with database.read() as connection:
            page = batches.list_page(connection, ACTOR, page_size=2, page_token=token)
        seen += [batch.id for batch in page.items]
        token = page.next_page_token
        if token is None:
            break
    assert seen == made[::-1]


def test_batches_are_found_by_a_part_of_their_name(database: Database) -> None:
    for name in ("Q1-Sizing", "100%_SIZING", "a\\b", "L'été"):
        submit(database, item(), name=name)
    wanted = {
        "sizing": ["100%_SIZING", "Q1-Sizing"],
        "q1-S": ["Q1-Sizing"],
        "%": ["100%_SIZING"],
        "_": ["100%_SIZING"],
        "\\": ["a\\b"],
        "'ÉTÉ": ["L'été"],
        "q1_sizing": [],
    }
    with database.read() as connection:
        for text, names in wanted.items():
            page = batches.list_page(
                connection, ACTOR, page_size=9, page_token=None, name_contains=text
            )
            assert [batch.name for batch in page.items] == names


def test_pages_of_batches_found_by_name(database: Database) -> None:
    for name in ("a1", "b", "A2", "a3"):
        submit(database, item(), name=name)
    with database.read() as connection:
        first = batches.list_page(
            connection, ACTOR, page_size=2, page_token=None, name_contains="a"
        )
        token = first.next_page_token
        second = batches.list_page(
            connection, ACTOR, page_size=2, page_token=token, name_contains="a"
        )
        with pytest.raises(MalformedError):
            batches.list_page(connection, ACTOR, page_size=2, page_token=token, name_contains="b")
    assert [batch.name for batch in first.items + second.items] == ["a3", "A2", "a1"]
    assert second.next_page_token is None


def test_filters_and_order_of_results(database: Database) -> None:
    run(database, item(axes=[SIZES], name="a"), item(custom_id="b", overrides={"num_gpus": 16}))
    falling = rows(database, order_by="-gpu_hours_lost", where=("num_gpus:le:64",))
    assert [row.inputs.get("num_gpus", 16) for row in falling] == [
        64,
        32,
        16,
        16,
        8,
    ]
    assert [row.custom_id for row in rows(database, name="one-slow")] == []
    assert len(rows(database, name="a", num_gpus_min=1000, num_gpus_max=3000)) == 2
    assert len(rows(database, where=("method:eq:closed_form",))) == 16


def test_one_result_can_be_computed_again(database: Database) -> None:
    batch = run(database, item(axes=[SIZES]))
    with database.read() as connection:
        detail = results.read_one(connection, ACTOR, f"{batch.id}.7")
        with pytest.raises(NotFoundError):
            results.read_one(connection, ACTOR, f"{batch.id}.15")
        with pytest.raises(NotFoundError):
            results.read_one(connection, ACTOR, "nonsense")
    assert detail.provenance.scenario["num_gpus"] == 1024
    assert detail.provenance.reproduce == {"scenario": detail.provenance.scenario}
    assert detail.result.id == f"{batch.id}.7"


def test_another_teams_batch_is_not_there(database: Database) -> None:
    batch = submit(database, item())
    stranger = Actor(team_id=UUID(int=5))
    with database.read() as connection, pytest.raises(NotFoundError):
        batches.get(connection, stranger, batch.id)
