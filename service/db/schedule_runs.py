"""The ledger of slots: reading its rows, and moving them from state to state."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import Connection, Row, Select, and_, func, or_, select, update

from service.db.schedule_tables import schedule, schedule_run

UNFINISHED = ("due", "running", "reporting")


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs a list holds; what is not given does not filter."""

    state: str | None = None
    kind: str | None = None
    backfill_id: UUID | None = None
    scheduled_after: datetime | None = None
    scheduled_before: datetime | None = None


def get_run(connection: Connection, team_id: UUID, run_id: UUID) -> Row[Any] | None:
    """One run of the team, with the slug of its schedule, or None."""
    c = schedule_run.c
    return connection.execute(_runs().where(c.id == run_id, c.team_id == team_id)).one_or_none()


def find_run(connection: Connection, run_id: UUID) -> Row[Any] | None:
    """One run, whatever its team, with the slug of its schedule, or None."""
    return connection.execute(_runs().where(schedule_run.c.id == run_id)).one_or_none()


def run_of_batch(connection: Connection, batch_id: UUID) -> Row[Any] | None:
    """The run whose newest attempt has submitted the batch, or None."""
    return connection.execute(_runs().where(schedule_run.c.batch_id == batch_id)).one_or_none()


def list_runs(
    connection: Connection,
    schedule_id: UUID,
    wanted: RunFilter,
    *,
    before: tuple[datetime, UUID] | None = None,
    limit: int,
) -> list[Row[Any]]:
    """Runs of the schedule, the newest slot first, after the keyset position `before`."""
    c = schedule_run.c
    query = _runs().where(c.schedule_id == schedule_id)
    if before is not None:
        earlier = and_(c.scheduled_for == before[0], c.id < before[1])
        query = query.where(or_(c.scheduled_for < before[0], earlier))
    if wanted.state is not None:
        query = query.where(c.state == wanted.state)
    if wanted.kind is not None:
        query = query.where(c.kind == wanted.kind)
    if wanted.backfill_id is not None:
        query = query.where(c.backfill_id == wanted.backfill_id)
    if wanted.scheduled_after is not None:
        query = query.where(c.scheduled_for > wanted.scheduled_after)
    if wanted.scheduled_before is not None:
        query = query.where(c.scheduled_for < wanted.scheduled_before)
    query = query.order_by(c.scheduled_for.desc(), c.id.desc()).limit(limit)
    return list(connection.execute(query))


def lock_run(connection: Connection, run_id: UUID) -> Row[Any] | None:
    """The run, not changed by anybody else until the transaction ends; None when there is none.

    The key is left out of the lock: reports and deliveries refer to it. On SQLite the transaction
    is the only writer already.
    """
    query = select(schedule_run).where(schedule_run.c.id == run_id)
    return connection.execute(query.with_for_update(key_share=True)).one_or_none()


def change_run(
    connection: Connection, run_id: UUID, *, expected: Sequence[str], now: datetime, **values: Any
) -> bool:
    """Change the run if it is in one of the expected states; whether it was."""
    c = schedule_run.c
    changed = connection.execute(
        update(schedule_run)
        .where(c.id == run_id, c.state.in_(expected))
        .values(version=c.version + 1, updated_at=now, **values)
    )
    return changed.rowcount == 1


def num_unfinished(connection: Connection, schedule_id: UUID, kind: str) -> int:
    """How many runs of the schedule of this kind wait or have not ended."""
    c = schedule_run.c
    query = select(func.count()).where(
        c.schedule_id == schedule_id, c.kind == kind, c.state.in_(UNFINISHED)
    )
    return connection.scalar(query) or 0


def end_run(
    connection: Connection,
    run_id: UUID,
    *,
    expected: Sequence[str],
    state: str,
    reason: str | None,
    now: datetime,
    **values: Any,
) -> bool:
    """End the run in `state` if it is in one of the expected ones; whether it was.

    Without a `reason` the one that is there stays, such as who has canceled it.
    """
    ending: dict[str, Any] = {"state": state, "ended_at": now, "not_before": None, **values}
    if reason is not None:
        ending["reason"] = reason
    return change_run(connection, run_id, expected=expected, now=now, **ending)


def _runs() -> Select[Any]:
    """All columns of runs, and `schedule_slug`."""
    return select(schedule_run, schedule.c.slug.label("schedule_slug")).join(
        schedule, schedule.c.id == schedule_run.c.schedule_id
    )
