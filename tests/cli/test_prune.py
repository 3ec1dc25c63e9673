from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from sqlalchemy import func, insert, select, text, update

from service.db import migrate
from service.db.access_tables import audit_event
from service.db.engine import Database
from service.db.schedule_tables import report
from service.db.tables import result_block, scenario_batch
from service.jobs.actors import DEFAULT_TEAM_ID
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


def test_what_an_unfinished_report_reads_is_kept(trainard: Program, tmp_path: Path) -> None:
    database = fill(tmp_path)
    with database.write() as connection:
        c = scenario_batch.c
        oldest = connection.scalars(select(c.id).order_by(c.ended_at)).first()
        connection.execute(
            insert(report).values(
                id=uuid4(),
                team_id=DEFAULT_TEAM_ID,
                created_by="test",
                state="queued",
                name="r",
                batch_id=oldest,
                settings={},
            )
        )
    pruned = trainard("prune", "--older-than", "400", "--database-url", URL)
    assert pruned.returncode == 0, pruned.stderr
    assert pruned.stdout.startswith("1 batches with 15 points ended before")
    assert "\n1 old batches are kept: " in pruned.stdout
    assert num_rows(database) == (2, 2)
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


def test_a_dry_run_shows_every_policy(trainard: Program, tmp_path: Path) -> None:
    database = fill(tmp_path)
    database.close()
    shown = trainard("prune", "--dry-run", "--database-url", URL)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[-1] == "dry run: nothing is deleted"
    kept = {line[:16].strip(): line[16:].split()[:2] for line in lines[1:-1]}
    assert {"batches", "exports", "reports", "deliveries", "delivery files"} <= set(kept)
    assert kept["batches"][0] == "ever"
    assert kept["deliveries"] == ["90", "days"]


def test_other_things_are_pruned_by_name(trainard: Program, tmp_path: Path) -> None:
    database = fill(tmp_path)
    with database.write() as connection:
        for days, size in ((200, 2_000_000), (10, 1)):
            connection.execute(
                insert(report).values(
                    id=uuid4(),
                    team_id=DEFAULT_TEAM_ID,
                    created_by="test",
                    state="succeeded",
                    name="r",
                    batch_id=uuid4(),
                    settings={},
                    document=b"x" * size,
                    ended_at=datetime.now(UTC) - timedelta(days=days),
                )
            )
    what = ("--what", "reports", "--what", "deliveries", "--what", "delivery-files")
    call = ("prune", *what, "--what", "exports", "--older-than", "100", "--database-url", URL)
    checked = trainard(*call, "--dry-run")
    assert checked.stdout.splitlines() == [
        "0 exports, 0.0 MB",
        "1 reports, 2.0 MB",
        "0 deliveries, 0.0 MB",
        "0 delivery files, 0.0 MB",
        "dry run: nothing is deleted",
    ]
    pruned = trainard(*call, "--compact")
    assert pruned.returncode == 0, pruned.stderr
    # Not only what batches leave is given back to the disk.
    assert "of the file are free" not in pruned.stdout
    with database.read() as connection:
        assert connection.scalar(text("PRAGMA freelist_count")) == 0
        assert connection.scalar(select(func.count()).select_from(report)) == 1
        c = audit_event.c
        told = select(c.actor).where(c.action == "prune_reports")
        assert [actor.split(":")[-1] for actor in connection.scalars(told)] == ["prune"]
    assert num_rows(database) == (3, 3)
    # What has a time of its own needs no days.
    assert trainard("prune", "--what", "exports", "--database-url", URL).returncode == 0
    database.close()
