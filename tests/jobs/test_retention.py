"""What would go now by each policy, and what goes, on both databases."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, insert, select, update

from service.db.access_tables import audit_event
from service.db.engine import Database
from service.db.schedule_tables import delivery, delivery_attempt, report, schedule
from service.db.tables import export_file, export_part, result_block, scenario_batch
from service.errors import ConflictError, NotFoundError
from service.jobs import batches as batch_jobs
from service.jobs import deletions, drops, retention
from service.jobs.actors import Actor
from service.jobs.audit_sealing import seal
from service.jobs.retention import RetentionPolicy
from service.settings import Deliveries, Settings
from tests.jobs.batch_bodies import SIZES, item, run, submit
from tests.jobs.slot_runs import a_run, a_schedule, ended

ACTOR = Actor()
NOW = datetime(2027, 6, 1, 12, tzinfo=UTC)
OTHER_TEAM = UUID(int=7)
NEVER = Settings(delivery_retention_days=0)
EVERYTHING = Settings(
    retention_days=100,
    report_retention_days=100,
    delivery_retention_days=100,
    audit_retention_days=100,
)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def add(database: Database, table: Any, **values: Any) -> UUID:
    own_id = uuid4()
    common = {"id": own_id, "team_id": ACTOR.team_id, "created_by": "test"}
    with database.write() as connection:
        connection.execute(insert(table).values(**common | values))
    return own_id


def a_report(database: Database, days: float, state: str = "succeeded") -> UUID:
    return add(
        database,
        report,
        state=state,
        name="r",
        batch_id=uuid4(),
        settings={},
        document=b"x" * 100,
        ended_at=ago(days) if state == "succeeded" else None,
    )


def a_delivery(database: Database, days: float, **values: Any) -> UUID:
    made = add(
        database,
        delivery,
        **{
            "message_id": uuid4().hex,
            "dedup_key": uuid4().hex,
            "event": "e",
            "kind": "webhook",
            "target": {},
            "include_costs": False,
            "state": "delivered",
            "reason": "",
            "attempts": 1,
            "payload": b"y" * 50,
            "created_at": ago(days),
            "ended_at": ago(days),
        }
        | values,
    )
    with database.write() as connection:
        connection.execute(
            insert(delivery_attempt).values(
                team_id=ACTOR.team_id, delivery_id=made, attempt=1, duration_ms=1
            )
        )
    return made


def an_export(database: Database, days: float) -> UUID:
    made = add(
        database,
        export_file,
        state="succeeded",
        format="csv",
        query={},
        num_bytes=10,
        ended_at=ago(days + 1),
        expires_at=ago(days),
    )
    with database.write() as connection:
        connection.execute(
            insert(export_part).values(
                team_id=ACTOR.team_id, export_id=made, part=0, first_byte=0, data=b"0123456789"
            )
        )
    return made


def told(
    database: Database, settings: Settings, team_id: UUID | None = None
) -> dict[str, RetentionPolicy]:
    with database.read() as connection:
        found = retention.policies(connection, settings, NOW, team_id)
    assert found.as_of == NOW
    return {policy.kept: policy for policy in found.policies}


def counts(found: dict[str, RetentionPolicy]) -> dict[str, int]:
    return {name: policy.expired for name, policy in found.items() if policy.expired}


def ids(database: Database, table: Any) -> set[UUID]:
    with database.read() as connection:
        return set(connection.scalars(select(table.c.id)))


def test_results_are_kept_unless_it_is_said_otherwise(database: Database) -> None:
    old = run(database, item(axes=[SIZES])).id
    ended(database, old, ago(200))
    a_report(database, 200)
    a_delivery(database, 200)
    found = told(database, NEVER)
    assert counts(found) == {}
    assert [(policy.kept, policy.setting, policy.days) for policy in found.values()] == [
        ("batches", "TRAINARD_RETENTION_DAYS", 0),
        ("exports", None, None),
        ("reports", "TRAINARD_REPORT_RETENTION_DAYS", 0),
        ("deliveries", "TRAINARD_DELIVERY_RETENTION_DAYS", 0),
        ("delivery_files", None, None),
        ("audit_events", "TRAINARD_AUDIT_RETENTION_DAYS", 0),
    ]
    retention.apply(database, NEVER, NOW)
    assert (len(ids(database, report)), len(ids(database, delivery))) == (1, 1)


def test_what_is_past_its_time_is_counted_and_nothing_goes(database: Database) -> None:
    nightly = a_schedule(database)
    for days, in_schedule in ((200, True), (150, False), (50, False)):
        batch_id = run(database, item(axes=[SIZES])).id
        ended(database, batch_id, ago(days))
        if in_schedule:
            a_run(database, nightly, "2026-12-01T02:30", batch_id)
    a_report(database, 101)
    a_report(database, 99)
    a_report(database, 500, state="queued")
    a_delivery(database, 120)
    a_delivery(database, 120, state="pending", ended_at=None)
    a_delivery(database, 99)
    files = {"folder": "f", "files": [{"name": "a", "bytes": 30, "sha256": ""}] * 2}
    a_delivery(database, 120, kind="directory", outcome=files, files_expire_at=ago(1))
    an_export(database, 1)
    an_export(database, -1)
    found = told(database, EVERYTHING)
    shown = {
        name: (policy.expired, policy.expired_bytes, policy.oldest_at)
        for name, policy in found.items()
        if name not in {"batches", "audit_events"}
    }
    assert shown == {
        "exports": (1, 10, ago(2)),
        "reports": (1, 100, ago(101)),
        "deliveries": (1, 50, ago(120)),
        "delivery_files": (2, 60, ago(120)),
    }
    batches = found["batches"]
    assert (batches.expired, batches.of_schedules, batches.oldest_at) == (2, 1, ago(200))
    with database.read() as connection:
        every = connection.scalar(select(func.sum(func.length(result_block.c.data))))
    assert every is not None
    assert 0 < batches.expired_bytes < every
    # Of another team there is nothing.
    assert counts(told(database, EVERYTHING, OTHER_TEAM)) == {}
    assert counts(told(database, EVERYTHING, ACTOR.team_id)) == counts(found)
    assert len(ids(database, report)) == 3


def nights(
    database: Database, *days: float, baseline: dict[str, Any] | None
) -> tuple[UUID, list[UUID], list[UUID]]:
    """A schedule with a run so many days ago each: its id, its runs and their batches."""
    nightly = a_schedule(database, uuid4().hex)
    batches = [ended_batch(database, day) for day in days]
    runs = [
        a_run(database, nightly, f"{ago(day).date()}T02:30", batch_id)
        for day, batch_id in zip(days, batches, strict=True)
    ]
    compare_with(database, nightly, baseline)
    return nightly, runs, batches


def compare_with(database: Database, schedule_id: UUID, baseline: dict[str, Any] | None) -> None:
    with database.write() as connection:
        connection.execute(
            update(schedule)
            .where(schedule.c.id == schedule_id)
            .values(definition={"baseline": baseline})
        )


def ended_batch(database: Database, days: float) -> UUID:
    """A batch that ended so many days ago; nothing of it was computed."""
    batch_id = submit(database, item()).id
    with database.write() as connection:
        c = scenario_batch.c
        values = {"state": "succeeded", "ended_at": ago(days)}
        connection.execute(update(scenario_batch).where(c.id == batch_id).values(**values))
    return batch_id


def deleted(database: Database, days: int) -> set[UUID]:
    """The batches that a retention of so many days hides, having told how many they are."""
    settings = Settings(retention_days=days, delivery_retention_days=0)
    shown = told(database, settings)["batches"]
    with database.read() as connection:
        counted = deletions.count_expired(connection, NOW, days)
    assert (counted.num_batches, counted.num_needed) == (shown.expired, shown.needed)
    gone = 0
    with database.write() as connection:
        while marked := deletions.mark_expired(connection, NOW, days):
            gone += marked
    assert gone == shown.expired
    assert counts(told(database, settings)) == {}
    assert told(database, settings)["batches"].needed == shown.needed
    with database.read() as connection:
        c = scenario_batch.c
        return set(connection.scalars(select(c.id).where(c.deleted_at.is_not(None))))


def test_a_named_baseline_is_deleted_by_nobody_until_another_is_named(database: Database) -> None:
    named, runs, batches = nights(database, 3, 2, baseline=None)

    def delete(place: int) -> None:
        with database.write() as connection:
            version = batch_jobs.get(connection, ACTOR, batches[place]).version
            deletions.delete_batch(connection, ACTOR, batches[place], expected_version=version)

    compare_with(database, named, {"kind": "run", "run_id": str(runs[0])})
    with pytest.raises(ConflictError, match="are compared with: change its `baseline` first"):
        delete(0)
    delete(1)
    compare_with(database, named, {"kind": "previous"})
    delete(0)
    with database.read() as connection, pytest.raises(NotFoundError):
        batch_jobs.get(connection, ACTOR, batches[0])


def test_the_baseline_of_a_day_gone_by_is_deleted_by_nobody(database: Database) -> None:
    dated, _, batches = nights(database, 300, 290, 280, baseline=None)

    def delete(place: int) -> None:
        with database.write() as connection:
            version = batch_jobs.get(connection, ACTOR, batches[place]).version
            deletions.delete_batch(connection, ACTOR, batches[place], expected_version=version)

    compare_with(database, dated, {"kind": "date", "on": str(ago(285).date())})
    with pytest.raises(ConflictError, match="are compared with: change its `baseline` first"):
        delete(1)
    delete(0)
    # Of a day to come the newest run stands in until then: as the previous one it may go.
    compare_with(database, dated, {"kind": "date", "on": "2999-12-31"})
    delete(2)
    delete(1)


def test_what_the_next_run_is_compared_with_stays(database: Database) -> None:
    _, _, previous = nights(database, 300, 200, 150, baseline={"kind": "previous"})
    named, runs, by_name = nights(database, 300, 200, 150, baseline=None)
    compare_with(database, named, {"kind": "run", "run_id": str(runs[0])})
    on = str(ago(180).date())
    _, _, by_date = nights(database, 300, 200, 150, baseline={"kind": "date", "on": on})
    _, _, alone = nights(database, 150, baseline=None)
    over, _, of_deleted = nights(database, 150, baseline={"kind": "previous"})
    with database.write() as connection:
        values = {"deleted_at": NOW, "unique_slug": str(over)}
        connection.execute(update(schedule).where(schedule.c.id == over).values(**values))
    assert deleted(database, 100) == {
        *previous[:2],
        *by_name[1:],
        by_date[0],
        by_date[2],
        *alone,
        *of_deleted,
    }
    with database.read() as connection:
        found = retention.policies(connection, EVERYTHING, NOW, OTHER_TEAM).policies[0]
    assert (found.expired, found.needed) == (0, 0)


def test_what_a_run_or_a_report_still_reads_stays(database: Database) -> None:
    nightly, (past, *_), (_, *others) = nights(database, 300, 250, 150, baseline=None)
    own, of_report, its_baseline, done = (ended_batch(database, 200) for _ in range(4))
    running: dict[str, Any] = {"state": "reporting", "baseline_run_id": past}
    a_run(database, nightly, "2027-03-01T02:30", own, **running)
    common = {"name": "r", "settings": {}}
    both = {"batch_id": of_report, "baseline_batch_id": its_baseline}
    add(database, report, state="queued", **common, **both)
    add(database, report, state="succeeded", batch_id=done, ended_at=NOW, **common)
    assert deleted(database, 100) == {*others, done}


def test_sealed_events_are_counted(database: Database) -> None:
    run(database, item(axes=[SIZES]))
    seal(database)
    with database.read() as connection:
        number = connection.scalar(select(func.count()).select_from(audit_event))
    later = Settings(audit_retention_days=1)
    with database.read() as connection:
        found = retention.policies(connection, later, datetime.now(UTC) + timedelta(days=2))
        none = retention.policies(connection, later, datetime.now(UTC))
    assert [policy.policies[-1].expired for policy in (found, none)] == [number, 0]


def test_reports_and_deliveries_go_by_policy(database: Database) -> None:
    """At most once a day, and each time with one event that says how many."""
    kept = a_report(database, 99.5), a_delivery(database, 99.5)
    waiting = a_delivery(database, 300, state="pending", ended_at=None)
    a_report(database, 100.5)
    a_delivery(database, 100.5)
    retention.apply(database, EVERYTHING, NOW)
    assert (len(ids(database, report)), len(ids(database, delivery))) == (2, 3)
    a_report(database, 101.5)
    a_delivery(database, 101.5)
    retention.apply(database, EVERYTHING, NOW)
    assert (ids(database, report), ids(database, delivery)) == ({kept[0]}, {kept[1], waiting})
    with database.read() as connection:
        events = connection.execute(
            select(audit_event.c.action, audit_event.c.actor, audit_event.c.detail).where(
                audit_event.c.action.in_(["prune_reports", "prune_deliveries"])
            )
        ).all()
        attempts = connection.scalar(select(func.count()).select_from(delivery_attempt))
    assert {(event.action, event.detail[:2]) for event in events} == {
        ("prune_reports", "2 "),
        ("prune_deliveries", "2 "),
    }
    assert attempts == 2


def test_expired_exports_go_when_they_are_pruned(database: Database) -> None:
    """They are hidden by the clock of now, whatever it is."""
    now = datetime.now(UTC)
    an_export(database, (NOW - now).days + 1)
    kept = an_export(database, (NOW - now).days - 1)
    assert retention.delete_exports(database, now) == 1
    assert ids(database, export_file) == {kept}


def test_files_in_folders_go_with_their_days(database: Database, tmp_path: Path) -> None:
    files = drops.write(
        str(tmp_path), "finance", [("a.json", b"{}"), ("b.json", b"[]")], team="ours"
    )
    outcome = {
        "team": "ours",
        "folder": "finance",
        "files": json.loads(
            json.dumps(
                [{"name": file.name, "bytes": file.bytes, "sha256": file.sha256} for file in files]
            )
        ),
    }
    a_delivery(database, 3, kind="directory", outcome=outcome, files_expire_at=ago(1))
    later = drops.write(str(tmp_path), "finance", [("c.json", b"{}")], team="ours")
    settings = Settings(deliveries=Deliveries(folder=str(tmp_path)))
    retention.apply(database, settings, NOW)
    assert [path.name for path in (tmp_path / "ours" / "finance").iterdir()] == [later[0].name]
    assert counts(told(database, settings)) == {}


@pytest.mark.parametrize("days", [0, 100])
def test_deliveries_of_a_number_of_days(database: Database, days: int) -> None:
    a_delivery(database, 101)
    a_delivery(database, 99)
    assert retention.delete_deliveries(database, NOW, days, command="prune") == (1 if days else 0)
