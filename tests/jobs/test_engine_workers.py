"""Workers on PostgreSQL: they share, hand over, fence each other and survive their database."""

import os
import signal
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Row, insert, text, update

from service.db import batches as batch_rows
from service.db import migrate
from service.db.engine import Database
from service.db.tables import scenario_batch, team
from service.jobs.actors import Actor
from service.jobs.chunks import CHUNK_POINTS
from service.jobs.engine import WORKFLOW_VERSION, Engine
from tests.conftest import PostgresServer
from tests.jobs.batch_bodies import read
from tests.jobs.completed import complete
from tests.jobs.engine_processes import (
    Computing,
    assert_same_bits,
    assert_whole,
    submit_grid,
    wait_for,
    wait_for_end,
    workers_of,
)

pytestmark = pytest.mark.postgres


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    opened = Database(postgres_url)
    yield opened
    opened.close()


def test_two_workers_share_a_batch_and_give_the_same_bits(database: Database) -> None:
    undisturbed = submit_grid(database, 400_000)
    complete(database)
    with Computing(database, "slow_s=0.3") as one, Computing(database, "slow_s=0.3") as two:
        names = {one.name, two.name}
        batch_id = submit_grid(database, 400_000)
        wait_for_end(database, batch_id)
    assert set(workers_of(database, batch_id)) == names
    assert_whole(database, batch_id, 400_000)
    assert_same_bits(database, batch_id, undisturbed)


def test_a_killed_workers_chunks_are_done_by_another_within_seconds(database: Database) -> None:
    """The contract with dbos' private recovery: another release of it must pass this."""
    with Computing(database, "slow_s=0.5") as killed, Computing(database, "slow_s=0.5") as other:
        dead, alive = killed.name, other.name
        batch_id = submit_grid(database, 300_000)
        wait_for(lambda: dead in workers_of(database, batch_id))
        killed.kill()
        moment = time.monotonic()
        wait_for_end(database, batch_id)
        took_s = time.monotonic() - moment
    assert_whole(database, batch_id, 300_000)
    assert set(workers_of(database, batch_id)) == {dead, alive}
    # 6 chunks at 0.5 s, two at a time, and at most two sweeps of 2 s
    assert took_s < 12


def test_a_stopped_worker_is_fenced_when_it_wakes_up(database: Database) -> None:
    options = ("slow_s=0.5", "unseen_s=4")
    with Computing(database, *options) as stopped, Computing(database, *options) as other:
        asleep, alive = stopped.name, other.name
        batch_id = submit_grid(database, 300_000)
        wait_for(lambda: asleep in workers_of(database, batch_id))
        os.kill(stopped.pid, signal.SIGSTOP)
        # Its lock is held all the time: only its silence gives it away.
        wait_for_end(database, batch_id)
        before = read(database, batch_id), workers_of(database, batch_id)
        os.kill(stopped.pid, signal.SIGCONT)
        # Its sessions were ended with what it had in hand: it finds its lock lost, and ends.
        assert stopped.wait() == 75
        assert (read(database, batch_id), workers_of(database, batch_id)) == before
        assert_whole(database, batch_id, 300_000)
        assert set(before[1]) == {asleep, alive}


def test_a_drained_worker_hands_over_and_loses_nothing(database: Database) -> None:
    with Computing(database, "slow_s=0.5") as drained, Computing(database, "slow_s=0.5") as other:
        first, _ = drained.name, other.name
        batch_id = submit_grid(database, 400_000)
        wait_for(lambda: first in workers_of(database, batch_id))
        os.kill(drained.pid, signal.SIGTERM)
        assert drained.wait(15) == 0
        done = workers_of(database, batch_id).count(first)
        wait_for_end(database, batch_id)
    assert_whole(database, batch_id, 400_000)
    assert workers_of(database, batch_id).count(first) == done


def test_a_worker_whose_connection_is_cut_ends_itself(database: Database) -> None:
    with Computing(database, "slow_s=0.3") as cut:
        assert cut.name
        batch_id = submit_grid(database, 300_000)
        wait_for(lambda: read(database, batch_id).points_done > 0)
        with database.write() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks "
                    "WHERE locktype = 'advisory' AND database = "
                    "(SELECT oid FROM pg_database WHERE datname = current_database())"
                )
            )
        assert cut.wait(20) == 75
    with Computing(database):
        wait_for_end(database, batch_id)
    assert_whole(database, batch_id, 300_000)


def test_work_of_an_older_workflow_version_is_enqueued_anew(database: Database) -> None:
    batch_id = submit_grid(database, 100_000)
    older = Engine(database)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.jobs.engine.WORKFLOW_VERSION", WORKFLOW_VERSION - 1)
        batch = read_row(database, batch_id)
        older.enqueue_chunks(batch_id, batch.team_id, 5, [0, 1])
    older.stop()
    with database.write() as connection:
        batch_rows.mark_sent(connection, batch_id, WORKFLOW_VERSION - 1)
    with Computing(database):
        wait_for_end(database, batch_id)
    assert_whole(database, batch_id, 100_000)


def test_a_small_batch_of_another_team_does_not_wait_for_a_large_one(database: Database) -> None:
    other = Actor(team_id=uuid4())
    with database.write() as connection:
        connection.execute(insert(team).values(id=other.team_id, slug="other", name="Other"))
    with Computing(database, "slow_s=0.2") as worker:
        assert worker.name
        large = submit_grid(database, 1_000_000)
        wait_for(lambda: read(database, large).points_done > 0)
        small = submit_grid(database, 60_000, actor=other)
        wait_for(lambda: read_row(database, small).ended_at is not None)
        behind = read(database, large).points_done
    # 20 chunks waited before its 2; a fair share is every other one.
    assert behind <= 12 * CHUNK_POINTS


def test_within_a_team_the_more_urgent_batch_comes_first(database: Database) -> None:
    with Computing(database, "slow_s=0.2") as worker:
        assert worker.name
        large = submit_grid(database, 1_000_000)
        wait_for(lambda: read(database, large).points_done > 0)
        urgent = submit_grid(database, 100_000, priority=1)
        wait_for_end(database, urgent)
        behind = read(database, large).points_done
    # What was in hand, and the two of a fair order at most
    assert behind <= 8 * CHUNK_POINTS


def test_the_engine_keeps_to_its_own_schema(database: Database) -> None:
    batch_id = submit_grid(database, 1_000)
    with Computing(database):
        wait_for_end(database, batch_id)
    with database.read() as connection:
        tables = connection.execute(
            text("SELECT schemaname, tablename FROM pg_tables WHERE tablename LIKE '%workflow%'")
        ).all()
        assert {row.schemaname for row in tables} == {"jobs"}
        assert migrate.current_of(connection) == migrate.head()


def test_a_crashed_server_delays_a_batch_and_no_more(own_server: PostgresServer) -> None:
    """PostgreSQL goes away in the middle: the worker ends itself, a new one goes on."""
    url = own_server.url("postgres")
    migrate.upgrade(url)
    database = Database(url)
    with Computing(database, "slow_s=0.3") as first:
        assert first.name
        batch_id = submit_grid(database, 300_000)
        wait_for(lambda: read(database, batch_id).points_done > 0)
        own_server.stop()
        own_server.start()
        assert first.wait(30) == 75
    with Computing(database):
        wait_for_end(database, batch_id)
    assert_whole(database, batch_id, 300_000)
    database.close()


def read_row(database: Database, batch_id: UUID) -> Row[Any]:
    with database.read() as connection:
        row = batch_rows.find_batch(connection, batch_id)
    assert row is not None
    return row


def test_a_deadline_that_passes_keeps_what_is_computed(database: Database) -> None:
    with Computing(database, "slow_s=0.5") as worker:
        assert worker.name
        batch_id = submit_grid(database, 1_000_000)
        wait_for(lambda: read(database, batch_id).points_done > 0)
        with database.write() as connection:
            connection.execute(
                update(scenario_batch).values(deadline_at=text("now() + interval '1 second'"))
            )
        assert wait_for_end(database, batch_id) == "expired"
        batch = read(database, batch_id)
        assert 0 < batch.points_done < batch.points_total
        time.sleep(1.5)
        assert read(database, batch_id) == batch
