"""Identical inputs: whose stored results a batch may take over, and whose it may not."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import update

from service.db.blocks import read_columns
from service.db.engine import Database
from service.db.tables import scenario_batch
from service.jobs import batches
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchOut
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


def test_the_same_inputs_are_taken_over_from_the_newest_batch(database: Database) -> None:
    first = run(database, item(axes=[SIZES]))
    second = run(database, item(axes=[SIZES]))
    third = submit(database, item(axes=[SIZES]))
    assert (first.reused_from, second.reused_from, third.reused_from) == (
        *(None, first.id, second.id),
    )
    complete(database)
    stored = [
        [row.result for row in rows(database, batch=batch.id)] for batch in (first, second, third)
    ]
    assert len(stored[0]) == 15
    assert stored[0] == stored[1] == stored[2]


def test_stored_blocks_are_copied_and_not_computed_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(database, item(axes=[speeds(60_000)]))
    second = submit(database, item(axes=[speeds(60_000)]))
    monkeypatch.setattr("service.jobs.compute_pool.compute_chunk", _refuse)
    complete(database)
    assert read(database, second.id).state == "succeeded"
    names = ("point", "item", "failure", "step_mean_ms", "gpu_hours_lost")
    with database.read() as connection:
        ours = read_columns(connection, second.id, names)
        theirs = read_columns(connection, first.id, names)
    assert len(ours["point"]) == 60_000
    for name in names:
        np.testing.assert_array_equal(ours[name], theirs[name])


def _refuse(*_: object) -> None:
    raise AssertionError("a chunk of equal inputs was computed again")


def test_labels_and_money_do_not_decide_numbers(database: Database) -> None:
    first = run(database, item(axes=[SIZES]))
    other = run(
        database,
        item(axes=[SIZES], name="renamed", pricing={"gpu_type": "B200"}, start_on="2027-01-01"),
        name="other",
        currency="EUR",
        start_on="2026-12-01",
        metadata={"ticket": "CAP-12"},
        priority=1,
        deadline_at="2099-01-01T00:00:00Z",
    )
    assert other.reused_from == first.id
    found = rows(database, batch=other.id)
    assert (found[0].name, found[0].start_on.isoformat()) == ("renamed", "2027-01-01")
    assert [row.result for row in found] == [row.result for row in rows(database, batch=first.id)]


def test_written_out_defaults_are_the_same_inputs(database: Database) -> None:
    first = run(database, item())
    assert submit(database, item(scenario={**SEED, "seed": 0})).reused_from == first.id
    assert submit(database, item(overrides={"period_days": 30})).reused_from == first.id


@pytest.mark.parametrize(
    "changes",
    [
        {"overrides": {"seed": 7}},
        {"overrides": {"period_days": 31}},
        {"overrides": {"num_gpus": 1023}},
        {"overrides": {"compute_ms": 300.0000001}},
        {"axes": [{"path": "num_gpus", "values": [1024]}]},
    ],
)
def test_other_numbers_are_other_inputs(database: Database, changes: dict[str, Any]) -> None:
    run(database, item())
    assert submit(database, item(**changes)).reused_from is None


def test_the_order_of_items_decides_which_point_is_which(database: Database) -> None:
    pair = [item(custom_id="a"), item(custom_id="b", overrides={"num_gpus": 8})]
    run(database, *pair)
    assert submit(database, *pair[::-1]).reused_from is None


def test_it_can_be_refused(database: Database) -> None:
    run(database, item())
    assert submit(database, item(), reuse=False).reused_from is None


def test_a_batch_with_rule_failures_is_reused_and_one_with_a_lost_chunk_is_not(
    database: Database,
) -> None:
    slow = {**SEED, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]}
    broken = item(scenario=slow, axes=[SIZES])
    first = run(database, broken)
    second = run(database, broken)
    assert second.reused_from == first.id
    assert (second.state, second.points_failed) == ("partially_failed", 4)
    lost = submit(database, item(custom_id="lost", axes=[speeds(60_000)]))
    record(database, lost.id, 0)
    record(database, lost.id, 1, failure="it kills its process")
    end(database, lost.id)
    assert read(database, lost.id).state == "partially_failed"
    assert submit(database, item(custom_id="lost", axes=[speeds(60_000)])).reused_from is None


def test_what_has_not_ended_well_is_not_reused(database: Database) -> None:
    submit(database, item())
    stopped = submit(database, item())
    cancel(database, stopped.id)
    assert submit(database, item()).reused_from is None


@pytest.mark.parametrize(
    "values",
    [
        {"deleted_at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"model_version": "0.9"},
        {"columns": ["other"]},
        {"points_done": 0},
    ],
)
def test_what_is_gone_or_of_another_model_is_not_reused(
    database: Database, values: dict[str, Any]
) -> None:
    first = run(database, item())
    change(database, first, values)
    assert submit(database, item()).reused_from is None


def change(database: Database, batch: BatchOut, values: dict[str, Any]) -> None:
    with database.write() as connection:
        connection.execute(
            update(scenario_batch).where(scenario_batch.c.id == batch.id).values(**values)
        )


def test_another_teams_results_are_not_taken(database: Database) -> None:
    run(database, item())
    stranger = Actor(team_id=UUID(int=5))
    body = {"name": "x", "items": [item()]}
    with database.read() as connection:
        assert batches.check(connection, stranger, body, LIMITS).reused_from is None
        assert batches.check(connection, ACTOR, body, LIMITS).reused_from is not None


def test_checking_says_what_would_be_reused(database: Database) -> None:
    first = run(database, item())
    with database.read() as connection:
        for reuse, expected in ((True, first.id), (False, None)):
            body = {"name": "x", "items": [item()], "reuse": reuse}
            assert batches.check(connection, ACTOR, body, LIMITS).reused_from == expected
