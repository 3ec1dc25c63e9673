"""`kill -9` at every named point of a batch: nothing is lost, doubled or changed."""

import pytest

from service.db.engine import Database
from tests.jobs.batch_bodies import cancel, read
from tests.jobs.completed import complete
from tests.jobs.engine_process import POINTS
from tests.jobs.engine_processes import (
    Computing,
    assert_same_bits,
    assert_whole,
    submit_grid,
    table_of,
    wait_for,
    wait_for_end,
)

KILLED = -9
NUM_POINTS = 210_000


def test_killed_at_every_named_point(database: Database) -> None:
    undisturbed = submit_grid(database, NUM_POINTS)
    complete(database)
    batch_id = submit_grid(database, NUM_POINTS)
    for point in POINTS:
        with Computing(database, f"kill={point}") as process:
            assert process.wait() == KILLED, point
    with Computing(database):
        wait_for_end(database, batch_id)
    assert_whole(database, batch_id, NUM_POINTS)
    assert_same_bits(database, batch_id, undisturbed)


def test_killed_while_a_cancellation_is_carried_out(database: Database) -> None:
    batch_id = submit_grid(database, NUM_POINTS)
    with Computing(database, "slow_s=0.4") as process:
        wait_for(lambda: 0 < read(database, batch_id).points_done < NUM_POINTS)
        cancel(database, batch_id)
        process.kill()
    for point in ("finalisation", "before the last commit"):
        before = read(database, batch_id)
        if before.ended_at is not None:
            break
        with Computing(database, f"kill={point}") as process:
            assert process.wait() == KILLED, point
        assert read(database, batch_id).state == "canceling"
    with Computing(database):
        assert wait_for_end(database, batch_id) == "canceled"
    batch = read(database, batch_id)
    assert 0 < batch.points_done < NUM_POINTS
    assert len(table_of(database, batch_id)["point"]) == batch.points_done
    assert batch.counts.total == batch.counts.succeeded + batch.counts.canceled


@pytest.mark.parametrize("kills", [3])
def test_killed_at_random_while_it_computes(database: Database, kills: int) -> None:
    undisturbed = submit_grid(database, NUM_POINTS)
    complete(database)
    batch_id = submit_grid(database, NUM_POINTS)
    for kill in range(kills):
        with Computing(database, "slow_s=0.2"):
            wait_for(lambda: read(database, batch_id).points_done >= kill * 50_000 + 1)  # noqa: B023
    with Computing(database):
        wait_for_end(database, batch_id)
    assert_whole(database, batch_id, NUM_POINTS)
    assert_same_bits(database, batch_id, undisturbed)
