"""Tampering by SQL with real trails, on both databases: each kind is found where it was done."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, text

from service.db.audit import NO_HASH
from service.db.engine import Database
from service.db.tables import audit_chain, audit_event
from service.jobs import audit_checks
from service.jobs.actors import DEFAULT_TEAM_ID, program
from service.jobs.api_keys import create_key
from service.jobs.audit_checks import Head
from service.jobs.audit_pruning import prune
from service.jobs.audit_sealing import seal
from service.jobs.key_documents import KeyIn
from tests.jobs.audit_trails import (
    age,
    change,
    change_chain,
    checked,
    events,
    kinds,
    put,
    record,
    rehash,
    remove,
    sealed,
)


@pytest.fixture
def trail(database: Database) -> Database:
    """Six sealed events."""
    sealed(database, 6)
    return database


def test_a_trail_as_it_was_recorded(trail: Database) -> None:
    found = checked(trail)
    assert (found.team, found.num_events, found.findings, found.warnings) == ("default", 6, [], [])
    assert found.head == Head(sequence=6, hash=events(trail)[-1].hash or "")


def test_a_team_without_events(database: Database) -> None:
    found = checked(database)
    assert (found.num_events, found.findings) == (0, [])
    assert found.head == Head(sequence=0, hash=NO_HASH)


ALTERED: dict[str, object] = {
    "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    "actor": "Eve",
    "principal": "key:fedcba9876543210",
    "role": "viewer",
    "action": "delete_batch",
    "outcome": "read",
    "subject": "gpu-hour-rate/0",
    "changed": ["price_per_gpu_hour"],
    "before_digest": "sha256:0",
    "after_digest": "sha256:0",
    "request": "GET /",
    "trace_id": "0",
    "address": "::1",
    "detail": "nothing",
}


def test_an_altered_event(trail: Database) -> None:
    """Whatever is stored of it: a new column must be hashed too."""
    places = {"team_id", "sequence", "previous_hash", "hash"}
    assert ALTERED.keys() | places == set(audit_event.c.keys())
    before = events(trail)[2]
    for column, value in ALTERED.items():
        change(trail, 3, **{column: value})
        assert kinds(trail) == [("altered", 3)], column
        change(trail, 3, **{column: getattr(before, column)})
        assert kinds(trail) == []


def test_an_altered_hash(trail: Database) -> None:
    change(trail, 3, hash="f" * 64)
    assert kinds(trail) == [("altered", 3), ("unlinked", 4)]


def test_a_removed_hash(trail: Database) -> None:
    change(trail, 3, hash=None)
    assert kinds(trail) == [("altered", 3)]


def test_an_event_that_was_altered_and_hashed_anew(trail: Database) -> None:
    before = events(trail)
    change(trail, 3, actor="Eve")
    rehash(trail, 3)
    for event in before[3:]:
        change(trail, event.sequence, hash=event.hash, previous_hash=event.previous_hash)
    change_chain(trail, sealed_sequence=6, sealed_hash=before[-1].hash)
    assert kinds(trail) == [("unlinked", 4)]


@pytest.mark.parametrize(("sequence", "more"), [(1, []), (3, []), (6, [("chain", 6)])])
def test_a_removed_event(trail: Database, sequence: int, more: list[tuple[str, int]]) -> None:
    remove(trail, sequence)
    assert kinds(trail) == [("removed", sequence), *more]


def test_a_cut_tail(trail: Database) -> None:
    remove(trail, 5, 6)
    found = checked(trail)
    assert [finding.sentence for finding in found.findings][:1] == ["events 5 to 6 were removed"]
    # Its own sealing cut back too: what comes next still has no place.
    change_chain(trail, sealed_sequence=4, sealed_hash=events(trail)[-1].hash)
    assert kinds(trail) == [("removed", 5)]


@pytest.mark.parametrize("sequence", [-1, 0, 7, 99])
def test_an_inserted_event(trail: Database, sequence: int) -> None:
    put(trail, sequence)
    assert kinds(trail) == [("inserted", sequence)]


def test_an_event_put_in_between(trail: Database) -> None:
    """All that follow move by one, and so does what the chain says."""
    for sequence in (6, 5, 4):
        change(trail, sequence, sequence=sequence + 1)
    put(trail, 4)
    change_chain(trail, next_sequence=8, sealed_sequence=7)
    assert kinds(trail) == [("moved", 4), ("moved", 5), ("altered", 6), ("altered", 7)]


def test_two_events_in_another_order(trail: Database) -> None:
    change(trail, 3, sequence=99)
    change(trail, 4, sequence=3)
    change(trail, 99, sequence=4)
    assert kinds(trail) == [("moved", 3), ("moved", 4), ("unlinked", 5)]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"sealed_hash": "f" * 64}, [("chain", 6)]),
        ({"sealed_sequence": 4}, [("chain", 5), ("chain", 6)]),
        ({"sealed_sequence": 9}, [("chain", 9)]),
        ({"next_sequence": 9}, [("removed", 7)]),
        ({"next_sequence": 5}, [("inserted", 5), ("inserted", 6), ("chain", 6)]),
        ({"pruned_hash": "f" * 64}, [("unlinked", 1)]),
    ],
)
def test_a_changed_chain(
    trail: Database, values: dict[str, object], found: list[tuple[str, int]]
) -> None:
    change_chain(trail, **values)
    assert kinds(trail) == found


def test_a_removed_chain(trail: Database) -> None:
    with trail.write() as connection:
        connection.execute(delete(audit_chain))
    assert kinds(trail) == [("chain", 6)]


def test_the_oldest_removed_by_hand(trail: Database) -> None:
    """The chain's row says that they were pruned, as after a pruning; no event does."""
    last = events(trail)[1]
    remove(trail, 1, 2)
    change_chain(trail, pruned_sequence=2, pruned_hash=last.hash)
    assert kinds(trail) == [("unpruned", 2)]


def test_a_rewritten_chain_is_found_by_a_head_that_was_kept(trail: Database) -> None:
    kept = checked(trail).head
    change(trail, 2, actor="Eve")
    rehash(trail, 2)
    sealed(trail, 2)
    assert kinds(trail) == []
    assert kinds(trail, kept) == [("head", 6)]
    assert kinds(trail, checked(trail).head) == []


def test_a_head_of_events_that_are_gone(trail: Database) -> None:
    sealed(trail, 1)
    kept = checked(trail).head
    remove(trail, 7)
    change_chain(trail, next_sequence=7, sealed_sequence=6, sealed_hash=events(trail)[-1].hash)
    assert kinds(trail) == []
    assert kinds(trail, kept) == [("head", 7)]
    with trail.write() as connection:
        connection.execute(delete(audit_event))
        connection.execute(delete(audit_chain))
    assert kinds(trail) == []
    assert kinds(trail, kept) == [("head", 7)]


def make_key(database: Database, name: str = "first") -> str:
    with database.write() as connection:
        document = KeyIn(name=name, role="admin")
        return create_key(connection, program("key"), document).public_id


def test_a_trail_that_was_removed_as_a_whole(database: Database) -> None:
    """Each key has an event, so that a team with keys and without a trail is found."""
    public_ids = [make_key(database), make_key(database, "second")]
    seal(database)
    assert kinds(database) == []
    with database.write() as connection:
        connection.execute(delete(audit_event))
        connection.execute(delete(audit_chain))
    found = checked(database)
    assert [finding.kind for finding in found.findings] == ["unrecorded"] * 2
    assert (found.num_events, found.num_findings) == (0, 2)
    for finding, public_id in zip(found.findings, public_ids, strict=True):
        assert f"the API key {public_id} is there, but not the event" in finding.sentence
    # Begun anew by whatever is recorded next: still found.
    make_key(database, "third")
    seal(database)
    assert kinds(database) == [("unrecorded", 0)] * 2


def test_keys_whose_events_were_pruned(database: Database) -> None:
    make_key(database)
    record(database)
    age(database, range(1, 3), 40)
    seal(database)
    assert sum(prune(database, 30)) == 2
    seal(database)
    assert kinds(database) == []


def test_events_that_wait_long_for_their_seal_are_a_warning(trail: Database) -> None:
    record(trail, 2)
    change(trail, 7, created_at=datetime.now(UTC) - timedelta(seconds=61))
    found = checked(trail)
    assert found.findings == []
    assert [warning.sequence for warning in found.warnings] == [7]
    assert found.head.sequence == 6
    seal(trail)
    assert checked(trail).warnings == []


def test_removed_before_it_was_sealed(trail: Database) -> None:
    """The sealer goes on, and a check finds it for ever."""
    record(trail, 3)
    remove(trail, 8)
    seal(trail)
    assert kinds(trail) == [("removed", 8)]
    record(trail, 1)
    remove(trail, 10)
    assert seal(trail) == {}
    sealed(trail, 1)
    assert kinds(trail) == [("removed", 8), ("removed", 10)]


def test_it_is_read_page_by_page(trail: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1, 2, 3, 6, 7):
        monkeypatch.setattr(audit_checks, "EVENTS_PER_PAGE", size)
        found = checked(trail)
        assert (found.num_events, found.findings) == (6, [])


def test_many_findings_are_counted(trail: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_checks, "MAX_FINDINGS", 2)
    for sequence in (1, 2, 4, 6):
        change(trail, sequence, actor="Eve")
    found = checked(trail)
    assert (len(found.findings), found.num_findings) == (2, 4)


@pytest.mark.parametrize(
    "tampering",
    [
        "sequence = 'zzz' WHERE sequence = 3",
        "sequence = x'ff' WHERE sequence = 3",
        "created_at = x'ff' WHERE sequence = 3",
        "created_at = 'zzz' WHERE sequence = 3",
        "changed = 'zzz' WHERE sequence = 3",
        "previous_hash = x'ff' WHERE sequence = 3",
        "created_at = 12345678901234567890123 WHERE sequence = 3",
    ],
)
def test_a_value_that_is_none_of_ours(sqlite_database: Database, tampering: str) -> None:
    """SQLite stores anything in any column."""
    sealed(sqlite_database, 6)
    with sqlite_database.write() as connection:
        connection.execute(text(f"UPDATE audit_event SET {tampering}"))
    assert kinds(sqlite_database) != []
    assert [found.team for found in audit_checks.check(sqlite_database)] == ["default"]


def test_a_team_whose_row_was_removed(sqlite_database: Database) -> None:
    sealed(sqlite_database, 2)
    # The shell's default: foreign keys are off.
    with closing(sqlite3.connect(str(sqlite_database.url.database))) as connection:
        connection.execute("DELETE FROM team")
        connection.commit()
    (found,) = audit_checks.check(sqlite_database)
    assert [(finding.kind, found.team) for finding in found.findings] == [
        ("team", str(DEFAULT_TEAM_ID))
    ]
