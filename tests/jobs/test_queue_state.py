from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import event, update

from service.db import batches as rows
from service.db import workers
from service.db.engine import Database
from service.db.tables import scenario_batch
from service.jobs import batch_runs, deletions
from service.jobs.queue_state import QueueState, list_workers, read_queue_state
from service.jobs.run_handover import hand_over
from service.jobs.run_starts import start_due
from service.jobs.slot_ledger import tick
from service.jobs.tasks import TASKS
from service.settings import Limits
from tests.jobs.batch_bodies import ACTOR, cancel, item, run, speeds, submit
from tests.jobs.completed import complete
from tests.jobs.delivery_worlds import NOW as PLANNED_AT
from tests.jobs.delivery_worlds import World
from tests.jobs.ledger_bodies import add_schedule
from tests.jobs.ledger_bodies import change as change_schedule

NOW = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)
GRID = item(axes=[speeds(120_000)])


def state_at(database: Database, now: datetime = NOW) -> QueueState:
    with database.read() as connection:
        return read_queue_state(connection, now)


def change(database: Database, batch_id: UUID, **values: Any) -> None:
    with database.write() as connection:
        connection.execute(
            update(scenario_batch).where(scenario_batch.c.id == batch_id).values(**values)
        )


def record(database: Database, batch_id: UUID, chunk: int, points: int, **values: Any) -> None:
    """The ledger row and the progress of a chunk, without its blocks."""
    with database.write() as connection:
        items = rows.list_items(connection, [batch_id])
        rows.record_chunk(
            connection,
            team_id=ACTOR.team_id,
            batch_id=batch_id,
            chunk=chunk,
            items=[(items[0].id, points, 0)],
            **{"now": NOW, "worker": "w", **values},
        )


def test_an_empty_service_has_only_zeros(database: Database) -> None:
    assert state_at(database) == QueueState(
        batches={"queued": 0, "running": 0, "canceling": 0},
        queue_age_s=0.0,
        chunks_waiting=0,
        chunks_failed=0,
        points_per_second=0.0,
        workers_alive=0,
        tasks_waiting=dict.fromkeys(TASKS, 0),
        runs={"due": 0, "running": 0, "reporting": 0},
        runs_due_age_s=0.0,
        deliveries={"pending": 0, "delivered": 0, "dead": 0, "skipped": 0, "canceled": 0},
        deliveries_age_s=0.0,
        slots_missed=0,
    )


def test_the_oldest_batch_that_waits_gives_the_age(database: Database) -> None:
    for minutes in (7, 3):
        waiting = submit(database, GRID)
        change(database, waiting.id, queued_at=NOW - timedelta(minutes=minutes))
    begun = submit(database, GRID)
    change(database, begun.id, queued_at=NOW - timedelta(hours=2))
    assert state_at(database).queue_age_s == 7200.0
    with database.write() as connection:
        batch_runs.start(connection, begun.id, NOW)
    found = state_at(database)
    assert found.queue_age_s == 420.0
    assert found.batches == {"queued": 2, "running": 1, "canceling": 0}
    # A clock that is behind gives no negative age.
    assert state_at(database, NOW - timedelta(hours=3)).queue_age_s == 0.0


def test_chunks_wait_until_they_are_recorded(database: Database) -> None:
    batch = submit(database, GRID)
    submit(database, item(axes=[speeds(10)]))
    # 120 000 points are two whole chunks and a part of one.
    assert state_at(database).chunks_waiting == 4
    record(database, batch.id, 2, 20_000)
    assert state_at(database).chunks_waiting == 3
    record(database, batch.id, 0, 50_000)
    assert state_at(database).chunks_waiting == 2
    with database.write() as connection:
        batch_runs.start(connection, batch.id, NOW)
    cancel(database, batch.id)
    found = state_at(database)
    assert found.chunks_waiting == 1
    assert found.batches == {"queued": 1, "running": 0, "canceling": 1}


def test_the_rate_is_of_the_last_minute_over_all_processes(database: Database) -> None:
    batch = submit(database, GRID)
    record(database, batch.id, 0, 50_000, now=NOW - timedelta(seconds=59), worker="a")
    record(database, batch.id, 2, 20_000, now=NOW - timedelta(seconds=1), worker="b")
    assert state_at(database).points_per_second == 70_000 / 60
    assert state_at(database, NOW + timedelta(seconds=5)).points_per_second == 20_000 / 60
    # A chunk that could not be computed is no throughput.
    record(database, batch.id, 1, 50_000, failure="chunk 1 killed its process 2 times")
    assert state_at(database, NOW + timedelta(seconds=5)).points_per_second == 20_000 / 60


def test_failed_chunks_are_of_a_day_or_of_an_unfinished_batch(database: Database) -> None:
    long_ago = NOW - timedelta(hours=25)
    unfinished, ended = submit(database, GRID), submit(database, GRID)
    for batch in (unfinished, ended):
        change(database, batch.id, queued_at=long_ago)
        record(database, batch.id, 0, 50_000, now=long_ago, failure="killed")
        record(database, batch.id, 1, 50_000, now=NOW - timedelta(hours=23), failure="killed")
        record(database, batch.id, 2, 20_000)
    change(database, ended.id, state="partially_failed", ended_at=NOW)
    assert state_at(database).chunks_failed == 3
    change(database, unfinished.id, state="partially_failed", ended_at=NOW)
    assert state_at(database).chunks_failed == 2


def test_workers_are_alive_while_they_are_seen(database: Database) -> None:
    with database.write() as connection:
        for name, seconds in (("old", 16), ("new", 14)):
            workers.record_worker(
                connection,
                name=name,
                role="worker",
                host="a.example",
                process=7,
                compute_processes=2,
                now=NOW - timedelta(seconds=seconds),
            )
    assert state_at(database).workers_alive == 1
    with database.read() as connection:
        listed = list_workers(connection, NOW).items
    assert [(found.id, found.alive) for found in listed] == [("old", False), ("new", True)]
    assert listed[1].seen_at == NOW - timedelta(seconds=14)
    assert (listed[1].host, listed[1].process, listed[1].compute_processes) == ("a.example", 7, 2)


def test_a_deletion_waits_until_its_rows_are_gone(database: Database) -> None:
    batch = run(database, item())
    with database.write() as connection:
        deletions.delete_batch(connection, ACTOR, batch.id, expected_version=batch.version)
    assert state_at(database).tasks_waiting["deletion"] == 1
    deletions.run(database, batch.id)
    assert state_at(database).tasks_waiting["deletion"] == 0


def test_a_scrape_reads_the_ledger_by_its_indexes_only(sqlite_database: Database) -> None:
    batch = submit(sqlite_database, GRID)
    change(sqlite_database, batch.id, queued_at=NOW - timedelta(hours=30))
    statements: list[tuple[str, Any]] = []

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if "FROM chunk_ledger" in statement:
            statements.append((statement, parameters))

    event.listen(sqlite_database.engine, "before_cursor_execute", keep)
    state_at(sqlite_database)
    event.remove(sqlite_database.engine, "before_cursor_execute", keep)
    assert len(statements) == 3
    with sqlite_database.read() as connection:
        for statement, parameters in statements:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            assert all("USING" in row.detail and "INDEX" in row.detail for row in plan), plan


def test_runs_that_are_due_and_slots_that_were_missed_are_counted(database: Database) -> None:
    begun = NOW - timedelta(days=3)
    schedules = [
        add_schedule(database, begun, slug=slug, zone="UTC", misfire_policy=policy)
        for slug, policy in (("latest", "run_latest"), ("skip", "skip"), ("paused", "run_all"))
    ]
    tick(database, NOW - timedelta(minutes=20))
    # Of three slots each: the newest is due, none is, and all are.
    state = state_at(database)
    assert state.runs == {"due": 4, "running": 0, "reporting": 0}
    assert (state.runs_due_age_s, state.slots_missed) == (1_200, 5)
    for schedule_id in schedules[1:]:
        change_schedule(database, schedule_id, paused_at=NOW)
    start_due(database, Limits(), NOW)
    state = state_at(database)
    # Those of the paused schedule wait for somebody.
    assert state.runs == {"due": 3, "running": 1, "reporting": 0}
    assert state.runs_due_age_s == 0
    complete(database)
    hand_over(database, NOW)
    assert state_at(database).runs == {"due": 3, "running": 0, "reporting": 1}
    assert state_at(database).tasks_waiting["nightly_report"] == 1
    assert state_at(database, NOW + timedelta(days=1)).slots_missed == 0


def test_deliveries_are_counted_by_state_and_the_oldest_that_waits_is_known(
    database: Database,
) -> None:
    world = World(database)
    folder = {"kind": "directory", "folder": "x"}
    world.plan(folder, folder, {**folder, "when": "on_change"}, state="failed", reason="x")
    world.plan(folder, state="canceled", reason="x", run_id=world.new_run())
    with database.read() as connection:
        found = read_queue_state(connection, PLANNED_AT + timedelta(seconds=90))
    assert found.deliveries == {
        "pending": 3,
        "delivered": 0,
        "dead": 0,
        "skipped": 1,
        "canceled": 0,
    }
    assert found.deliveries_age_s == 90
