"""Published rows are the stored points bit for bit, and come and go without holding readers up."""

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from service.db import publications as rows_of
from service.db.copy_rows import CopyField, label_field, number_field
from service.db.engine import Database
from service.db.publications import PublishedColumn
from service.db.results import BatchRef, iterate_columns
from service.db.tables import metadata
from service.errors import ConflictError, NotFoundError, PreconditionFailedError
from service.jobs import deletions, publications, published_rows
from service.jobs.batch_documents import BatchOut
from service.jobs.publications import PublicationOut
from service.jobs.published_rows import FIXED_COLUMNS, LABELS, published_columns
from service.jobs.stored_inputs import defaults_beside
from service.jobs.tasks import TASKS
from service.model.results import COLUMNS, Column
from tests.jobs.batch_bodies import ACTOR, SEED, SIZES, item, read, run, speeds, submit
from tests.jobs.completed import complete

pytestmark = pytest.mark.postgres
SQL_TYPES = {
    "float64": "double precision",
    "int64": "bigint",
    "bool": "boolean",
    "enum": "text",
}
SOME_SLOW = {**SEED, "slow_groups": [{"count": 70, "speed_fraction": 0.5}]}


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    """A migrated PostgreSQL database: nothing here is for SQLite but the refusal."""
    opened = Database(postgres_url)
    yield opened
    opened.close()


def publish(database: Database, batch: BatchOut) -> PublicationOut:
    with database.write() as connection:
        return publications.publish(connection, ACTOR, batch.id)


def get(database: Database, batch: BatchOut) -> PublicationOut:
    with database.read() as connection:
        return publications.get(connection, ACTOR, batch.id)


def unpublish(database: Database, batch: BatchOut, version: int) -> None:
    with database.write() as connection:
        publications.unpublish(connection, ACTOR, batch.id, expected_version=version)


def selected(database: Database, query: str) -> list[Any]:
    with database.read() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def num_rows(database: Database, batch: BatchOut) -> int:
    (row,) = selected(
        database, f"SELECT count(*) FROM bi.result_point WHERE batch_id = '{batch.id}'"
    )
    return int(row[0])


def partitions(database: Database) -> set[str]:
    rows = selected(database, "SELECT tablename FROM pg_tables WHERE schemaname = 'bi'")
    return {row[0] for row in rows} - {"result_point"}


def large(database: Database) -> BatchOut:
    """More than two blocks, two items, failed points, texts of all kinds."""
    return run(
        database,
        item(custom_id="a", name="käse; 'DROP'", axes=[speeds(21_000)]),
        item(custom_id="some-fail", scenario=SOME_SLOW, axes=[SIZES]),
    )


def stored(
    database: Database, batch: BatchOut, names: Sequence[str], constants: dict[str, float]
) -> dict[str, Any]:
    ref = BatchRef(batch_id=batch.id, constants=constants)
    with database.read() as connection:
        parts = list(iterate_columns(connection, ref, names))
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def test_published_rows_are_the_stored_points_bit_for_bit(database: Database) -> None:
    batch = large(database)
    assert (batch.state, batch.points_total, batch.points_failed) == (
        "partially_failed",
        21_015,
        4,
    )
    assert publish(database, batch).state == "queued"
    complete(database)
    found = get(database, batch)
    assert (found.state, found.rows, found.table) == ("succeeded", 21_011, "bi.result_point")
    assert found.ended_at is not None
    with database.read() as connection:
        columns = list(
            connection.scalar(
                text("SELECT columns FROM scenario_batch WHERE id = :id"), {"id": batch.id}
            )
            or []
        )
    constants = defaults_beside(columns)
    columns = [*columns, *constants]
    names = [column.name for column in published_columns(columns)]
    assert len(names) == len(set(names)) > 30
    quoted = ", ".join(f'"{name}"' for name in names)
    rows = selected(database, f"SELECT {quoted} FROM bi.result_point ORDER BY point")
    expected = stored(database, batch, ["item", *names[5:]], constants)
    assert len(rows) == len(expected["point"]) == 21_011
    for column, values in zip(published_columns(columns), zip(*rows, strict=True), strict=True):
        if column in FIXED_COLUMNS[:5]:
            continue
        wanted = expected[column.name]
        if column.kind == "enum":
            labels = LABELS[column.name]
            assert list(values) == [
                labels[int(code)] if code >= 0 else None for code in wanted.tolist()
            ]
            continue
        nulls = np.array([value is None for value in values])
        assert (nulls == ~np.isfinite(wanted)).all(), column.name
        same = np.array([value for value in values if value is not None], dtype=wanted.dtype)
        assert same.tobytes() == wanted[~nulls].tobytes(), column.name
    texts = [row[:5] for row in rows]
    first = (batch.id, ACTOR.team_id, "a", "käse; 'DROP'", None)
    second = (batch.id, ACTOR.team_id, "some-fail", "some-fail", None)
    assert texts == [first if position == 0 else second for position in expected["item"]]


def test_columns_are_typed_and_explained(database: Database) -> None:
    publish(database, run(database, item(axes=[SIZES])))
    complete(database)
    shown = {
        name: (kind, comment)
        for name, kind, comment in selected(
            database,
            "SELECT column_name, data_type, col_description('bi.result_point'::regclass,"
            " ordinal_position) FROM information_schema.columns WHERE table_name = 'result_point'",
        )
    }
    assert shown["batch_id"][0] == "uuid"
    assert shown["num_gpus"] == ("bigint", "Input. GPUs held by the job, all paid for.")
    assert shown["slow_groups.0.count"][0] == "bigint"
    assert shown["period_days"] == ("bigint", "Input. The loss window, days.")
    assert shown["method"] == ("text", "How the expected step was found.")
    for column in COLUMNS:
        kind, comment = shown[column.name]
        assert kind == SQL_TYPES[column.kind]
        assert comment.startswith(column.sentence)
        assert column.unit in comment
    assert all(comment for _, comment in shown.values())


def test_new_inputs_switches_and_whole_numbers_are_published(database: Database) -> None:
    failures = {"failures_per_1000_node_days": 2, "asynchronous_checkpoint": True}
    spread = {"transient": {"kind": "normal", "cv": 0.05}}
    for scenario in (SEED, {**SEED, "failures": failures, "variability": spread}):
        publish(database, run(database, item(scenario=scenario)))
        complete(database)
    found = selected(
        database,
        'SELECT "failures.asynchronous_checkpoint", "synchronization.kind", gpus_per_node,'
        " is_extrapolated, num_independent_ranks, spread_method, remedy"
        ' FROM bi.result_point ORDER BY "failures.failures_per_1000_node_days" NULLS FIRST',
    )
    assert found[0][:4] == (None, "every_step", 8, False)
    assert found[1] == ("true", "every_step", 8, False, 1024, "quadrature", None)
    where = "WHERE NOT is_extrapolated AND num_spare_gpus = 0"
    assert selected(database, f"SELECT count(*) FROM bi.result_point {where}") == [(2,)]


def test_places_of_slow_gpus_are_published_as_words_and_numbers(database: Database) -> None:
    pipeline = {"schedule": "1f1b", "stages": 4, "microbatches": 4, "forward_ms": 1}
    scenario = {
        "num_gpus": 4,
        "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
        "pipeline": {**pipeline, "backward_ms": [2, 2, 2, 3]},
    }
    places = {"path": "slow_groups.0.placement", "values": ["random", "worst", 2]}
    publish(database, run(database, item(scenario=scenario, axes=[places])))
    publish(database, run(database, item()))
    complete(database)
    found = selected(
        database,
        'SELECT "slow_groups.0.placement", "pipeline.forward_ms" FROM bi.result_point'
        ' ORDER BY "pipeline.forward_ms" NULLS LAST, point',
    )
    assert found == [("random", 1), ("worst", 1), ("2", 1), (None, None)]


def test_a_profile_is_named_with_its_revision(database: Database) -> None:
    batch = run(database, item(axes=[SIZES]))
    with database.write() as connection:
        connection.execute(
            text("UPDATE batch_item SET profile_slug = 'prod', profile_revision = 3")
        )
    publish(database, batch)
    complete(database)
    assert selected(database, "SELECT DISTINCT profile FROM bi.result_point") == [("prod@3",)]


def test_later_batches_bring_new_columns(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = run(database, item(axes=[SIZES]))
    two_groups = [{"count": 1, "speed_fraction": 0.7}, {"count": 2, "speed_fraction": 0.9}]
    two = run(database, item(scenario={**SEED, "slow_groups": two_groups}, axes=[SIZES]))
    publish(database, one)
    complete(database)
    added = Column(name="brand_new", unit="ms", sentence="Not computed yet.", kind="int64")
    monkeypatch.setattr(published_rows, "COLUMNS", (*COLUMNS, added))
    publish(database, two)
    complete(database)
    counts = selected(
        database,
        'SELECT batch_id, sum("slow_groups.1.count"), count(brand_new), count(*)'
        " FROM bi.result_point GROUP BY batch_id ORDER BY batch_id",
    )
    assert counts == [(one.id, None, 0, 15), (two.id, 30, 0, 15)]


def test_a_column_that_comes_while_rows_are_copied_does_no_harm(database: Database) -> None:
    batch = run(database, item(axes=[SIZES]))
    columns = [
        PublishedColumn(name="batch_id", kind="uuid", comment="Batch."),
        PublishedColumn(name="point", kind="int64", comment="Point."),
    ]
    rows_of.make_columns(database, columns)

    def chunks() -> Iterator[list[CopyField]]:
        late = PublishedColumn(name="late", kind="float64", comment="Came late.")
        rows_of.make_columns(database, [*columns, late])
        yield [
            label_field(np.zeros(2, dtype=np.int64), [batch.id.bytes]),
            number_field(np.array([4, 5])),
        ]

    with database.write() as connection:
        assert rows_of.fill(connection, batch.id, columns, chunks()) == 2
    found = selected(database, "SELECT point, late FROM bi.result_point ORDER BY point")
    assert found == [(4, None), (5, None)]


def test_publishing_twice_is_publishing_once(database: Database) -> None:
    batch = run(database, item(axes=[SIZES]))
    first = publish(database, batch)
    assert publish(database, batch) == first
    complete(database)
    done = get(database, batch)
    assert publish(database, batch) == done
    complete(database)
    assert get(database, batch) == done
    assert num_rows(database, batch) == 15
    assert partitions(database) == {f"result_point_{batch.id.hex}"}


def test_what_cannot_be_published_is_refused(database: Database, sqlite_database: Database) -> None:
    waiting = submit(database, item())
    with pytest.raises(ConflictError) as caught:
        publish(database, waiting)
    assert caught.value.problem == "batch-not-finished"
    embedded = run(sqlite_database, item())
    with pytest.raises(ConflictError, match="SQLite") as caught:
        publish(sqlite_database, embedded)
    assert caught.value.problem == "needs-postgresql"
    with pytest.raises(NotFoundError, match="is not published"):
        get(sqlite_database, embedded)
    long = PublishedColumn(name="x" * 64, kind="int64", comment="Too long.")
    with pytest.raises(ValueError, match="at most 63 bytes"):
        rows_of.make_columns(database, [long])


def test_unpublishing_drops_the_rows_and_keeps_the_batch(database: Database) -> None:
    batch, other = run(database, item(axes=[SIZES])), run(database, item())
    publish(database, batch)
    publish(database, other)
    complete(database)
    version = get(database, batch).version
    with pytest.raises(PreconditionFailedError, match="not 77"):
        unpublish(database, batch, 77)
    unpublish(database, batch, version)
    with pytest.raises(NotFoundError):
        get(database, batch)
    complete(database)
    assert partitions(database) == {f"result_point_{other.id.hex}"}
    assert read(database, batch.id).state == "succeeded"
    assert selected(database, "SELECT batch_id FROM publication") == [(other.id,)]
    publish(database, batch)
    complete(database)
    assert (num_rows(database, batch), num_rows(database, other)) == (15, 1)


def test_it_may_be_asked_for_again_before_the_rows_are_gone(database: Database) -> None:
    batch = run(database, item(axes=[SIZES]))
    publish(database, batch)
    complete(database)
    unpublish(database, batch, get(database, batch).version)
    again = publish(database, batch)
    assert (again.state, again.rows) == ("queued", 0)
    complete(database)
    assert get(database, batch).rows == num_rows(database, batch) == 15


def test_deleting_a_batch_drops_its_rows(database: Database) -> None:
    batch, other = run(database, item(axes=[SIZES])), run(database, item())
    for one in (batch, other):
        publish(database, one)
    complete(database)
    with database.write() as connection:
        deletions.delete_batch(connection, ACTOR, batch.id, expected_version=batch.version)
    with pytest.raises(NotFoundError):
        publish(database, batch)
    complete(database)
    assert partitions(database) == {f"result_point_{other.id.hex}"}
    assert selected(database, "SELECT batch_id FROM publication") == [(other.id,)]


def interrupt(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Have `act` called once, while rows are copied."""
    whole, calls = published_rows.row_fields, iter([act])

    def fields(*arguments: Any) -> list[CopyField]:
        next(calls, lambda: None)()
        return whole(*arguments)

    monkeypatch.setattr(publications, "row_fields", fields)


def task_id(database: Database) -> UUID:
    (row,) = selected(database, "SELECT id FROM publication")
    found: UUID = row[0]
    return found


class KilledError(Exception):
    pass


def test_a_killed_publication_leaves_nothing_and_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = large(database)
    publish(database, batch)

    def kill() -> None:
        raise KilledError

    interrupt(monkeypatch, kill)
    with pytest.raises(KilledError):
        publications.run(database, task_id(database))
    assert partitions(database) == set()
    assert get(database, batch).state == "running"
    publications.run(database, task_id(database))
    assert get(database, batch).rows == num_rows(database, batch) == 21_011
    publications.run(database, task_id(database))
    assert num_rows(database, batch) == 21_011


def test_what_is_taken_back_meanwhile_is_not_published(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = run(database, item(axes=[SIZES]))
    publish(database, batch)
    interrupt(monkeypatch, lambda: unpublish(database, batch, get(database, batch).version))
    complete(database)
    assert partitions(database) == set()
    complete(database)
    assert selected(database, "SELECT count(*) FROM publication") == [(0,)]


def test_a_batch_deleted_meanwhile_is_not_published(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = run(database, item(axes=[SIZES]))
    publish(database, batch)

    def delete() -> None:
        with database.write() as connection:
            deletions.delete_batch(connection, ACTOR, batch.id, expected_version=batch.version)

    interrupt(monkeypatch, delete)
    publications.run(database, task_id(database))
    assert partitions(database) == set()
    complete(database)
    assert selected(database, "SELECT count(*) FROM scenario_batch") == [(0,)]


def test_readers_see_all_rows_or_none_and_wait_for_neither(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, batch = run(database, item()), run(database, item(axes=[SIZES]))
    publish(database, first)
    complete(database)
    seen: list[int] = []
    interrupt(monkeypatch, lambda: seen.append(num_rows(database, batch)))
    publish(database, batch)
    with database.read() as connection:
        # A reader that keeps the table open all the time does not hold publishing up.
        connection.execute(text("SELECT count(*) FROM bi.result_point"))
        publications.run(database, get_id(database, batch))
        assert num_rows(database, batch) == 15
    assert seen == [0]


def get_id(database: Database, batch: BatchOut) -> UUID:
    (row,) = selected(database, f"SELECT id FROM publication WHERE batch_id = '{batch.id}'")
    found: UUID = row[0]
    return found


def test_dropping_rows_waits_for_a_reader_and_lets_the_others_through(database: Database) -> None:
    batch = run(database, item(axes=[SIZES]))
    publish(database, batch)
    complete(database)
    longest_s = 0.0
    with database.read() as connection:
        connection.execute(text("SELECT count(*) FROM bi.result_point"))
        dropping = threading.Thread(target=publications.withdraw, args=(database, batch.id))
        dropping.start()
        stop = time.monotonic() + 1.0
        while time.monotonic() < stop:
            start = time.perf_counter()
            assert num_rows(database, batch) == 15
            longest_s = max(longest_s, time.perf_counter() - start)
            time.sleep(0.01)
        assert dropping.is_alive()
    dropping.join(timeout=10)
    assert not dropping.is_alive()
    assert partitions(database) == set()
    # 50 ms behind the one that waits for the table to itself, and what the machine adds.
    assert longest_s < 0.5


def test_a_failure_is_shown_and_can_be_tried_again(database: Database) -> None:
    batch = run(database, item(axes=[SIZES]))
    publish(database, batch)
    task = TASKS["publication"]
    with database.write() as connection:
        assert list(task.unsent(connection, 1)) == [task_id(database)]
        task.mark_sent(connection, [task_id(database)], 1)
        assert list(task.unsent(connection, 1)) == []
        assert list(task.unsent(connection, 2)) == [task_id(database)]
    failed = task_id(database)
    with database.write() as connection:
        task.fail(connection, failed, "permission denied for database")
    found = get(database, batch)
    assert (found.state, found.failure) == ("failed", "permission denied for database")
    assert publish(database, batch).state == "queued"
    # The engine runs a task once for an id, so it has a new one.
    assert task_id(database) != failed
    complete(database)
    with database.write() as connection:
        task.fail(connection, task_id(database), "too late")
    assert get(database, batch).state == "succeeded"


def test_migrations_do_not_see_the_published_tables(database: Database) -> None:
    publish(database, run(database, item()))
    complete(database)
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []
