"""What the database holds after a load, against what was acknowledged to its clients."""

from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import func, select

from service.db.engine import Connection, Database
from service.db.tables import (
    audit_event,
    cluster_profile,
    cluster_profile_revision,
    gpu_hour_rate,
    idempotency_key,
    scenario_batch,
)
from tests.load.tally import Tally

OURS = "load-%"


def assert_stored(database: Database, tally: Tally) -> None:
    """Every acknowledged write is there, once, and nothing else that looks like one of them."""
    with database.read() as connection:
        _assert_same("newest revisions", _profiles(connection), tally.profiles)
        _assert_same("revisions", _revisions(connection), tally.profiles)
        # What is there or acknowledged twice is counted twice.
        _assert_same("rates", Counter(_rates(connection)), Counter(set(tally.rates)))
        batches = {UUID(key): name for key, name in tally.batches.items()}
        _assert_same("batches", _batches(connection), batches)
        states = _states(connection, tally.cancellations)
        assert states <= {"canceling", "canceled"}, states
        keys = connection.scalar(
            select(func.count())
            .where(idempotency_key.c.key.like(OURS))
            .select_from(idempotency_key)
        )
        assert keys == len(tally.keyed), (keys, len(tally.keyed))
        _assert_audited(connection, tally)


def _assert_same(what: str, stored: Mapping[Any, Any], acknowledged: Mapping[Any, Any]) -> None:
    """Say which are there and were not acknowledged so, and the other way round."""
    differing = [
        (key, stored.get(key), acknowledged.get(key))
        for key in stored.keys() | acknowledged.keys()
        if stored.get(key) != acknowledged.get(key)
    ]
    assert not differing, f"{what} (stored, acknowledged): {differing[:5]} of {len(differing)}"


def _profiles(connection: Connection) -> dict[str, int]:
    c = cluster_profile.c
    rows = connection.execute(select(c.slug, c.newest_revision).where(c.slug.like(OURS)))
    return {row.slug: row.newest_revision for row in rows}


def _revisions(connection: Connection) -> dict[str, int]:
    """How many revisions each profile has."""
    c = cluster_profile.c
    rows = connection.execute(
        select(c.slug, func.count())
        .join(cluster_profile_revision, cluster_profile_revision.c.profile_id == c.id)
        .where(c.slug.like(OURS))
        .group_by(c.slug)
    )
    return {row[0]: row[1] for row in rows}


def _rates(connection: Connection) -> list[tuple[str, str]]:
    c = gpu_hour_rate.c
    rows = connection.execute(select(c.gpu_type, c.valid_from).where(c.gpu_type.like(OURS)))
    return [(row.gpu_type, row.valid_from.isoformat()) for row in rows]


def _batches(connection: Connection) -> dict[UUID, str]:
    c = scenario_batch.c
    rows = connection.execute(select(c.id, c.name).where(c.name.like(OURS)))
    return {row.id: row.name for row in rows}


def _states(connection: Connection, batch_ids: list[str]) -> set[str]:
    c = scenario_batch.c
    wanted = {UUID(batch_id) for batch_id in batch_ids}
    rows = connection.execute(select(c.id, c.state).where(c.name.like(OURS)))
    return {row.state for row in rows if row.id in wanted}


def _assert_audited(connection: Connection, tally: Tally) -> None:
    """One event a change, in a sequence without a gap."""
    c = audit_event.c
    done: dict[str, Any] = {
        row.action: row[1]
        for row in connection.execute(
            select(c.action, func.count()).where(c.outcome == "done").group_by(c.action)
        )
    }
    revisions = sum(tally.profiles.values()) - len(tally.profiles)
    expected = {
        "create_profile": len(tally.profiles),
        "revise_profile": revisions,
        "create_rate": len(tally.rates),
    }
    # The large and the read batch beside those of the clients
    expected["submit_batch"] = len(tally.batches) + 2
    _assert_same("audited", {action: done.get(action, 0) for action in expected}, expected)
    for team_id, first, last, number in connection.execute(
        select(c.team_id, func.min(c.sequence), func.max(c.sequence), func.count()).group_by(
            c.team_id
        )
    ):
        assert (first, last) == (1, number), (team_id, first, last, number)
