from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import func, select, update

from service.db import migrate
from service.db.engine import Database
from service.db.tables import result_block, scenario_batch
from tests.cli.conftest import Program
from tests.jobs.batch_bodies import SIZES, item, run

URL = "sqlite:///batches.db"


def fill(folder: Path) -> Database:
    """Two batches that ended long ago and one of today."""
    url = f"sqlite:///{folder / 'batches.db'}"
    migrate.upgrade(url)
    database = Database(url)
    for days in (500, 401, 0):
        batch = run(database, item(axes=[SIZES]))
        with database.write() as connection:
            connection.execute(
                update(scenario_batch)
                .where(scenario_batch.c.id == batch.id)
                .values(ended_at=datetime.now(UTC) - timedelta(days=days))
            )
    return database


def num_rows(database: Database) -> tuple[int, int]:
    with database.read() as connection:
        return (
            connection.scalar(select(func.count()).select_from(scenario_batch)) or 0,
            len(set(connection.scalars(select(result_block.c.batch_id)))),
        )


def test_old_batches_are_pruned(trainard: Program, tmp_path: Path) -> None:
    database = fill(tmp_path)
    call = ("prune", "--older-than", "400", "--database-url", URL)
    checked = trainard(*call, "--dry-run")
    assert checked.returncode == 0, checked.stderr
    assert "2 batches with 30 points ended before" in checked.stdout
    assert "nothing is deleted" in checked.stdout
    assert num_rows(database) == (3, 3)
    pruned = trainard(*call, "--compact")
    assert pruned.returncode == 0, pruned.stderr
    assert "2 batches with 30 points" in pruned.stdout
    assert num_rows(database) == (1, 1)
    assert "0 batches with 0 points" in trainard(*call).stdout
    database.close()


def test_what_a_killed_deletion_left_is_pruned(trainard: Program, tmp_path: Path) -> None:
    database = fill(tmp_path)
    with database.write() as connection:
        connection.execute(update(scenario_batch).values(deleted_at=datetime.now(UTC)))
    shown = trainard("prune", "--older-than", "9999", "--database-url", URL)
    assert shown.returncode == 0, shown.stderr
    assert "3 deleted batches have rows left" in shown.stdout
    assert num_rows(database) == (0, 0)
    database.close()


def test_days_are_needed(trainard: Program) -> None:
    refused = trainard("prune")
    assert refused.returncode == 2
    assert "--older-than" in refused.stderr
    assert trainard("prune", "--older-than", "0").returncode == 2
