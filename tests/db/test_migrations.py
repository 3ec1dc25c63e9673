"""Migrations go up, down and up on both databases and make exactly the declared tables."""

import subprocess
import sys
import threading
import zipfile
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, select

from service.db import migrate
from service.db.engine import Database
from service.db.tables import metadata, team
from service.jobs.actors import DEFAULT_TEAM_ID

ROOT = Path(__file__).parents[2]


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
