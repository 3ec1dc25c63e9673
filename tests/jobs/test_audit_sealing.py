"""Chaining, by many at once and by every kind of process, on both databases."""

import hashlib
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from uuid import UUID

import pytest
import structlog
from sqlalchemy import event, insert, select

from service.db.audit import NO_HASH, append_event
from service.db.engine import Connection, Database
from service.db.job_engine import job_file
from service.db.process_locks import FileLock
from service.db.tables import audit_chain, audit_event, team
from service.jobs import audit, audit_sealing
from service.jobs.actors import DEFAULT_TEAM_ID, Actor
from service.jobs.audit_sealing import Sealer, seal
from service.jobs.runtime import Runtime
from tests.full_disks import full_disk
from tests.jobs.audit_trails import ACTOR, checked, events, kinds, record

OTHER = UUID(int=7)


def other_team(database: Database) -> Actor:
    with database.write() as connection:
        connection.execute(insert(team).values(id=OTHER, slug="other", name="Other"))
    return Actor(team_id=OTHER)


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.02)
    return holds()


def are_sealed(database: Database, number: int) -> bool:
    found = events(database)
    return len(found) == number and all(event.hash for event in found)


def test_the_hash_is_sha_256_over_what_an_export_shows(database: Database) -> None:
    """Recomputed with the standard library: for these values its JSON is that of RFC 8785."""
    record(database, 2, detail='quotes " and ü')
    assert seal(database)[DEFAULT_TEAM_ID] == ("default", 2, events(database)[1].hash)
    last = NO_HASH
    for found in events(database):
        assert found.previous_hash == last
        fields = {
            "sequence": found.sequence,
            "team_id": str(found.team_id),
            "created_at": found.created_at.isoformat().replace("+00:00", "Z"),
            "actor": "Ada [0123456789abcdef]",
            "principal": "key:0123456789abcdef",
            "role": "admin",
            "action": "create_rate",
            "outcome": "done",
            "subject": found.subject,
            "changed": [],
            "detail": 'quotes " and ü',
            "previous_hash": last,
        }
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert found.hash == hashlib.sha256(text.encode()).hexdigest()
        last = found.hash


def test_each_team_has_a_chain_of_its_own(database: Database) -> None:
    other = other_team(database)
    record(database, 2)
    record(database, 1, actor=other)
    heads = seal(database)
    assert {head[:2] for head in heads.values()} == {("default", 2), ("other", 1)}
    assert seal(database) == {}


def test_an_idle_service_writes_nothing(database: Database) -> None:
    record(database, 1)
    seal(database)
    sent: list[str] = []
    event.listen(
        database.engine, "before_cursor_execute", lambda *given: sent.append(given[2].split()[0])
    )
    assert seal(database) == {}
    assert sent[-1:] == ["SELECT"]
    assert not {"UPDATE", "INSERT", "DELETE"} & set(sent)


def test_many_write_and_many_seal_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event is left out, sealed twice or out of order."""
    monkeypatch.setattr(audit_sealing, "EVENTS_PER_STEP", 3)
    writing = threading.Event()
    writing.set()

    def seal_on() -> None:
        while writing.is_set():
            seal(database)

    with ThreadPoolExecutor(8) as pool:
        sealers = [pool.submit(seal_on) for _ in range(3)]
        writers = [pool.submit(record, database, 12) for _ in range(5)]
        for writer in writers:
            writer.result()
        writing.clear()
        for sealer in sealers:
            sealer.result()
    seal(database)
    assert are_sealed(database, 60)
    found = checked(database)
    assert (found.num_events, found.findings) == (60, [])


@pytest.mark.postgres
def test_no_number_is_seen_before_a_smaller_one(postgres_url: str) -> None:
    """The lock on the chain's row makes the next writer wait for the end of the one before."""
    database = Database(postgres_url)
    record(database, 1)
    second = threading.Event()

    def write_second() -> None:
        with database.write() as connection:
            audit.record(connection, ACTOR, action="second")
        second.set()

    with database.write() as connection:
        audit.record(connection, ACTOR, action="first")
        thread = threading.Thread(target=write_second)
        thread.start()
        assert not second.wait(0.3)
        assert [found.sequence for found in events(database)] == [1]
    thread.join()
    assert [found.action for found in events(database)[1:]] == ["first", "second"]
    database.close()


def test_a_change_that_is_rolled_back_leaves_no_gap(database: Database) -> None:
    def fail() -> None:
        with database.write() as connection:
            audit.record(connection, ACTOR, action="create_rate")
            raise ZeroDivisionError

    record(database, 1)
    with pytest.raises(ZeroDivisionError):
        fail()
    record(database, 1)
    seal(database)
    assert [found.sequence for found in events(database)] == [1, 2]
    assert kinds(database) == []


def test_a_sealer_seals_within_a_second(database: Database) -> None:
    sealer = Sealer(database)
    sealer.start()
    try:
        record(database, 3)
        assert within(1.0, lambda: are_sealed(database, 3))
    finally:
        sealer.stop()


def test_the_head_is_logged_once_a_minute_and_at_the_end(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_sealing, "SEAL_EVERY_S", 0.01)
    with structlog.testing.capture_logs() as logs:
        sealer = Sealer(database)
        sealer.start()
        for number in range(1, 4):
            record(database, 1)
            assert within(5, partial(are_sealed, database, number))
        assert within(5, lambda: len(logs) == 1)
        record(database, 1)
        sealer.stop()
    last = events(database)[-1]
    heads = [entry["head"] for entry in logs if entry["event"] == "audit_head"]
    assert heads[-1] == f"4:{last.hash}"
    assert len(heads) == 2
    assert logs[0]["team"] == "default"


def test_a_fault_does_not_end_the_sealer(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_sealing, "SEAL_EVERY_S", 0.01)
    faults = iter([ValueError("a defect")])

    def failing(opened: Database) -> dict[UUID, tuple[str, int, str]]:
        for fault in faults:
            raise fault
        return seal(opened)

    monkeypatch.setattr(audit_sealing, "seal", failing)
    with structlog.testing.capture_logs() as logs:
        sealer = Sealer(database)
        sealer.start()
        record(database, 1)
        assert within(5, lambda: are_sealed(database, 1))
        sealer.stop()
    assert logs[0]["event"] == "audit_not_sealed"


def test_a_full_disk_is_logged_once_a_minute_and_all_is_sealed_after_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_sealing, "SEAL_EVERY_S", 0.01)
    record(database, 3)
    with structlog.testing.capture_logs() as logs:
        sealer = Sealer(database)
        with full_disk(database):
            sealer.start()
            assert not within(0.5, lambda: are_sealed(database, 3))
        assert within(5, lambda: are_sealed(database, 3))
        sealer.stop()
    (warning,) = [entry for entry in logs if entry["event"] == "audit_not_sealed"]
    reason = "database or disk is full" if database.is_sqlite else "no space left on device"
    assert reason in warning["reason"]


def test_every_process_with_a_runtime_seals(database: Database) -> None:
    """Also the API process of PostgreSQL, and the second process of a SQLite file."""
    with ExitStack() as stack:
        if database.is_sqlite:
            other = FileLock(job_file(database).with_suffix(".lock"))
            assert other.acquire()
            stack.callback(other.close)
        runtime = Runtime(database)
        runtime.start()
        try:
            record(database, 1)
            assert within(1.5, lambda: are_sealed(database, 1))
            record(database, 1)
        finally:
            runtime.stop()
    assert are_sealed(database, 2)


def test_two_chains_that_begin_at_once(database: Database) -> None:
    barrier = threading.Barrier(6)

    def begin(connection: Connection) -> int:
        return append_event(
            connection,
            DEFAULT_TEAM_ID,
            **dict.fromkeys(("actor", "principal", "role", "action", "outcome", "subject"), "x"),
            changed=[],
        )

    def run(_: int) -> int:
        barrier.wait()
        with database.write() as connection:
            return begin(connection)

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(run, range(6))) == [1, 2, 3, 4, 5, 6]
    with database.read() as connection:
        assert connection.scalar(select(audit_chain.c.next_sequence)) == 7
        assert len(list(connection.execute(select(audit_event)))) == 6
