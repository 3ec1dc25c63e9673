"""Old events go from the oldest end only, and an event says so, on both databases."""

import pytest

from service.db.engine import Database
from service.jobs import audit_pruning
from service.jobs.audit_checks import Head
from service.jobs.audit_pruning import apply_retention, count, prune
from service.jobs.audit_sealing import seal
from service.jobs.runtime import Runtime
from service.settings import Settings
from tests.jobs.audit_trails import age, change_chain, checked, events, kinds, record, remove


@pytest.fixture
def old(database: Database) -> Database:
    """Seven sealed events, of which the first five are 40 days old, and one that is not sealed."""
    record(database, 7)
    age(database, range(1, 6), 40)
    seal(database)
    record(database, 1)
    return database


def test_the_oldest_are_removed_and_an_event_says_so(old: Database) -> None:
    before = events(old)
    assert count(old, 30) == 5
    assert list(prune(old, 30)) == [5]
    seal(old)
    found = checked(old)
    assert (found.findings, found.num_events, found.pruned_sequence) == ([], 4, 5)
    last = events(old)[-1]
    assert (last.sequence, last.action, last.actor, last.subject) == (
        *(9, "prune_audit_events"),
        *("audit-prune", "audit-event/5"),
    )
    assert last.detail is not None
    assert last.detail.startswith("5 events, the last of ")
    assert events(old)[0] == before[5]
    assert list(prune(old, 30)) == []
    assert count(old, 30) == 0


def test_it_is_done_in_steps(old: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_pruning, "EVENTS_PER_STEP", 2)
    assert list(prune(old, 30)) == [2, 2, 1]
    seal(old)
    assert kinds(old) == []
    assert [event.subject for event in events(old)[-3:]] == [
        f"audit-event/{sequence}" for sequence in (2, 4, 5)
    ]


def test_what_is_not_sealed_stays(old: Database) -> None:
    age(old, range(1, 9), 40)
    assert list(prune(old, 30)) == [7]
    seal(old)
    assert [event.sequence for event in events(old)] == [8, 9]
    assert kinds(old) == []


def test_a_young_event_keeps_what_comes_after_it(database: Database) -> None:
    """A clock that was set back must not tear a hole."""
    record(database, 5)
    age(database, range(1, 3), 40)
    age(database, range(4, 6), 40)
    seal(database)
    assert list(prune(database, 30)) == [2]
    seal(database)
    assert [event.sequence for event in events(database)] == [3, 4, 5, 6]
    assert kinds(database) == []


def test_events_removed_by_hand_after_a_pruning_are_missed(old: Database) -> None:
    list(prune(old, 30))
    seal(old)
    sixth = events(old)[0]
    remove(old, 6)
    change_chain(old, pruned_sequence=6, pruned_hash=sixth.hash)
    assert kinds(old) == [("unpruned", 6)]


def test_a_head_that_was_pruned_since_cannot_be_compared(old: Database) -> None:
    before = events(old)
    list(prune(old, 30))
    seal(old)
    assert kinds(old, Head(sequence=3, hash=before[2].hash or "")) == [("head", 3)]
    assert kinds(old, Head(sequence=5, hash=before[4].hash or "")) == []
    assert kinds(old, Head(sequence=5, hash="f" * 64)) == [("head", 5)]


def test_retention_removes_and_says_so_at_most_once_a_day(database: Database) -> None:
    record(database, 4)
    age(database, range(1, 2), 30.9)
    seal(database)
    assert apply_retention(database, 0) == 0
    assert apply_retention(database, 30) == 0
    record(database, 1)
    age(database, range(1, 2), 31.1)
    age(database, range(2, 4), 30.1)
    assert apply_retention(database, 30) == 3
    assert apply_retention(database, 30) == 0
    last = events(database)[-1]
    assert (last.actor, last.principal) == ("retention", "program:retention")


def test_a_service_with_retention_prunes(old: Database) -> None:
    runtime = Runtime(old, settings=Settings(audit_retention_days=30))
    runtime.start()
    runtime.stop()
    assert [event.sequence for event in events(old)] == [6, 7, 8, 9]
    assert kinds(old) == []
