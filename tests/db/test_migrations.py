"""Migrations go up, down and up on both databases and make exactly the declared tables."""

import subprocess
import sys
import threading
import zipfile
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import UUID

import pytest
import uuid_utils.compat
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import func, insert, inspect, select

from service.db import migrate
from service.db.engine import Connection, Database
from service.db.migration_losses import Loss, losses
from service.db.tables import (
    back_test,
    calibration,
    chunk_ledger,
    chunk_piece,
    delivery,
    delivery_attempt,
    loss_change,
    metadata,
    report,
    scenario_batch,
    schedule,
    schedule_backfill,
    schedule_run,
    team,
    web_session,
    webhook_endpoint,
)
from service.jobs.actors import DEFAULT_TEAM_ID

ROOT = Path(__file__).parents[2]
# What 0007 and later have made
NEWER = (
    back_test,
    calibration,
    delivery,
    delivery_attempt,
    loss_change,
    report,
    schedule,
    schedule_backfill,
    schedule_run,
    web_session,
    webhook_endpoint,
)


def table_names(url: str) -> set[str]:
    database = Database(url)
    with database.read() as connection:
        names = set(inspect(connection).get_table_names())
    database.close()
    return names - {"alembic_version"}


def test_up_down_up(empty_url: str) -> None:
    assert migrate.current(empty_url) is None
    migrate.upgrade(empty_url)
    assert migrate.current(empty_url) == migrate.head()
    assert table_names(empty_url) == set(metadata.tables)
    migrate.downgrade(empty_url, "base")
    assert migrate.current(empty_url) is None
    assert table_names(empty_url) == set()
    migrate.upgrade(empty_url)
    assert table_names(empty_url) == set(metadata.tables)


def test_migrated_tables_are_the_declared_ones(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_default_team_is_there(database: Database) -> None:
    with database.read() as connection:
        assert connection.execute(select(team.c.id, team.c.slug)).all() == [
            (DEFAULT_TEAM_ID, "default")
        ]


def test_second_upgrade_changes_nothing(database: Database, database_url: str) -> None:
    migrate.upgrade(database_url)
    with database.read() as connection:
        assert len(connection.execute(select(team.c.id)).all()) == 1
        assert migrate.current_of(connection) == migrate.head()


def test_processes_that_start_together_migrate_once(empty_url: str) -> None:
    errors: list[Exception] = []

    def start() -> None:
        try:
            migrate.upgrade(empty_url)
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert migrate.current(empty_url) == migrate.head()


def test_wheel_carries_the_migrations(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    versions = {
        f"service/_migrations/versions/{path.name}"
        for path in (ROOT / "migrations" / "versions").glob("*.py")
    }
    assert versions | {"service/_migrations/env.py"} <= names


def cut_batch(connection: Connection, state: str, chunk_points: int) -> UUID:
    """A batch with the ledger rows of chunks 0, 1, 4 and 7, the last of which failed."""
    now, batch_id = datetime.now(UTC), uuid_utils.compat.uuid7()
    connection.execute(
        insert(scenario_batch).values(
            id=batch_id,
            team_id=DEFAULT_TEAM_ID,
            created_by="test",
            name="cut",
            state=state,
            start_on=date(2026, 12, 1),
            metadata={},
            items_total=1,
            points_total=80_000,
            columns=[],
            input_digest="sha256:0",
            model_version="1.1",
            warnings=[],
            queued_at=now,
            chunk_points=chunk_points,
        )
    )
    connection.execute(
        insert(chunk_ledger),
        [
            {
                "team_id": DEFAULT_TEAM_ID,
                "created_at": now,
                "batch_id": batch_id,
                "chunk": chunk,
                "num_points": 10_000,
                "points_failed": failed,
                "worker": "local",
                "failure": "killed its process" if chunk == 7 else None,
            }
            for chunk, failed in ((0, 5), (1, 0), (4, 1), (7, 10_000))
        ],
    )
    return batch_id


def test_ledgers_of_small_chunks_go_down_as_large_ones(
    database: Database, database_url: str
) -> None:
    with database.write() as connection:
        small = cut_batch(connection, "canceled", 10_000)
        large = cut_batch(connection, "succeeded", 50_000)
    migrate.downgrade(database_url, "0004")
    with database.read() as connection:
        columns = {column["name"] for column in inspect(connection).get_columns("scenario_batch")}
        c = chunk_ledger.c
        rows = connection.execute(
            select(
                c.batch_id, c.chunk, c.num_points, c.points_failed, c.worker, c.failure
            ).order_by(c.batch_id, c.chunk)
        ).all()
    assert "chunk_points" not in columns
    assert [tuple(row)[1:] for row in rows if row.batch_id == small] == [
        (0, 30_000, 6, "local", None),
        (1, 10_000, 10_000, "local", "killed its process"),
    ]
    assert [row.chunk for row in rows if row.batch_id == large] == [0, 1, 4, 7]
    migrate.upgrade(database_url)
    with database.read() as connection:
        found = connection.scalars(select(scenario_batch.c.chunk_points)).all()
    assert found == [50_000, 50_000]


def test_an_unfinished_batch_of_small_chunks_is_not_taken_down(
    database: Database, database_url: str
) -> None:
    with database.write() as connection:
        batch_id = cut_batch(connection, "running", 10_000)
        cut_batch(connection, "running", 50_000)
    with pytest.raises(ValueError, match=f"1 unfinished batches .* such as {batch_id}"):
        migrate.downgrade(database_url, "0004")
    assert migrate.current(database_url) == migrate.head()
    with database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(chunk_ledger)) == 8


def test_pieces_are_lost_on_the_way_down_and_nothing_else(
    database: Database, database_url: str
) -> None:
    with database.write() as connection:
        batch_id = cut_batch(connection, "running", 10_000)
        connection.execute(
            insert(chunk_piece).values(
                team_id=DEFAULT_TEAM_ID,
                batch_id=batch_id,
                chunk=2,
                first_point=20_000,
                num_points=64,
                model_version="2.0",
                payload=b"columns",
            )
        )
    assert losses(database_url, "0005") == [Loss("chunk_piece", 1)]
    migrate.downgrade(database_url, "0005")
    gone = {"chunk_piece", *(found.name for found in NEWER)}
    assert table_names(database_url) == set(metadata.tables) - gone
    migrate.upgrade(database_url)
    with database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(chunk_piece)) == 0
        assert connection.scalar(select(func.count()).select_from(chunk_ledger)) == 4
