"""What programs change by themselves has its events too, in the trail of each team."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from click.testing import CliRunner, Result
from rich_click import Command
from sqlalchemy import insert, update

from service.cli import import_rates, prune
from service.db import export_files as files
from service.db.audit import events_of
from service.db.engine import Database
from service.db.tables import export_file, scenario_batch, team
from service.jobs import deletions, export_files, export_removal, retention
from service.jobs.actors import DEFAULT_TEAM_ID
from service.jobs.audit import digest_of
from service.jobs.audit_checks import check
from service.jobs.audit_hashes import event_of
from service.jobs.export_documents import ExportIn
from tests.jobs.audit_trails import events, kinds
from tests.jobs.batch_bodies import ACTOR, item, run

OTHER = UUID(int=7)
RATES = "gpu_type,currency,price_per_gpu_hour,valid_from,source\nH100,EUR,1.00,2026-10-01,example\n"


def shown(database: Database, team_id: UUID = DEFAULT_TEAM_ID) -> list[tuple[str, str, str]]:
    """Principal, action and subject of each event that no person made."""
    with database.read() as connection:
        found = [event_of(row) for row in events_of(connection, team_id)]
    return [
        (event.principal, event.action, event.subject)
        for event in found
        if event.principal.startswith("program:")
    ]


def old_batches(database: Database, *days: int) -> list[UUID]:
    ids = [run(database, item()).id for _ in days]
    with database.write() as connection:
        for batch_id, age in zip(ids, days, strict=True):
            connection.execute(
                update(scenario_batch)
                .where(scenario_batch.c.id == batch_id)
                .values(ended_at=datetime.now(UTC) - timedelta(days=age))
            )
    return ids


def test_each_batch_past_its_retention_has_an_event(database: Database) -> None:
    first, second, third, kept = old_batches(database, 50, 40, 40, 1)
    with database.write() as connection:
        connection.execute(insert(team).values(id=OTHER, slug="other", name="Other"))
        connection.execute(
            update(scenario_batch).where(scenario_batch.c.id == third).values(team_id=OTHER)
        )
    for expected in (3, 0):
        with database.write() as connection:
            assert deletions.mark_expired(connection, datetime.now(UTC), 30) == expected
    retention = "program:retention"
    assert sorted(shown(database)) == [
        (retention, "delete_batch", f"scenario-batch/{batch_id}")
        for batch_id in sorted((first, second))
    ]
    assert shown(database, OTHER) == [(retention, "delete_batch", f"scenario-batch/{third}")]
    assert str(kept) not in str(shown(database))
    assert [found.findings for found in check(database)] == [[], []]


def called(command: Command, *arguments: str) -> Result:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result


def test_prune_has_an_event_for_each_batch(database: Database, database_url: str) -> None:
    old, _ = old_batches(database, 50, 1)
    call = ("--older-than", "30", "--database-url", database_url)
    called(prune.command, *call, "--dry-run")
    assert shown(database) == []
    called(prune.command, *call)
    assert shown(database) == [("program:prune", "delete_batch", f"scenario-batch/{old}")]
    # No service runs that would seal it.
    assert all(event.hash for event in events(database))


def test_import_rates_has_one_event(database: Database, database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "rates.csv"
    file.write_text(RATES)
    call = (str(file), "--database-url", database_url)
    called(import_rates.command, *call, "--dry-run")
    assert events(database) == []
    called(import_rates.command, *call)
    (event,) = events(database)
    assert (event.actor, event.principal) == ("import-rates", "program:import-rates")
    assert (event.action, event.subject) == ("import_rates", "gpu-hour-rates")
    assert (event.detail, event.hash is not None) == ("1 rates", True)


def test_an_expired_file_has_one_event_whoever_hides_it(database: Database) -> None:
    ids = []
    for number in range(3):
        with database.write() as connection:
            made = export_files.create(connection, ACTOR, ExportIn(format="csv"))
            past = datetime.now(UTC) - timedelta(seconds=number)
            connection.execute(
                update(export_file)
                .where(export_file.c.id == made.id)
                .values(state="failed", expires_at=past)
            )
        ids.append(made.id)
    first, second, third = ids
    with database.write() as connection:
        export_removal.TASK.mark_sent(connection, [first], 1)
    export_removal.run(database, second)
    with database.write() as connection:
        export_removal.TASK.mark_sent(connection, [first, second], 1)
        kept = files.find_file(connection, third)
    assert kept is not None
    assert kept.state == "failed"
    assert shown(database) == [
        ("program:retention", "delete_export", f"export/{export_id}")
        for export_id in (first, second)
    ]
    assert kinds(database) == []


def test_a_file_that_was_pruned_by_hand_has_the_name_of_that_program(database: Database) -> None:
    with database.write() as connection:
        made = export_files.create(connection, ACTOR, ExportIn(format="csv"))
        connection.execute(
            update(export_file)
            .where(export_file.c.id == made.id)
            .values(state="failed", expires_at=datetime.now(UTC))
        )
    assert retention.delete_exports(database, datetime.now(UTC), command="prune") == 1
    assert shown(database) == [("program:prune", "delete_export", f"export/{made.id}")]


def test_a_file_that_somebody_deleted_has_only_that_event(database: Database) -> None:
    with database.write() as connection:
        made = export_files.create(connection, ACTOR, ExportIn(format="csv"))
        export_files.delete(connection, ACTOR, made.id, expected_version=made.version)
    with database.write() as connection:
        export_removal.TASK.mark_sent(connection, [made.id], 1)
    export_removal.run(database, made.id)
    assert shown(database) == []
    assert [event.action for event in events(database)] == ["create_export", "delete_export"]


def test_a_price_cannot_be_found_from_its_digest() -> None:
    """Whoever knows the rest of a rate could try all amounts."""
    rates = [
        {"id": "a", "price_per_gpu_hour": {"amount": amount, "currency": "EUR"}}
        for amount in ("2.10", "2.20")
    ]
    assert digest_of(rates[0]) == digest_of(rates[1])
    assert digest_of([rates[0]]) == digest_of([rates[1]])
    assert digest_of(rates[0]) != digest_of({**rates[0], "id": "b"})
