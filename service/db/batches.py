"""Batches, their items and the chunk ledger."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, and_, case, func, insert, or_, select, update

from service.db.tables import batch_item, chunk_ledger, scenario_batch

UNFINISHED = ("queued", "running", "canceling")


def insert_batch(
    connection: Connection, batch: Mapping[str, Any], items: Sequence[Mapping[str, Any]]
) -> None:
    """Write a batch and its items."""
    connection.execute(insert(scenario_batch).values(**batch))
    connection.execute(insert(batch_item), [dict(item) for item in items])


def get_batch(connection: Connection, team_id: UUID, batch_id: UUID) -> Row[Any] | None:
    """One batch of the team, or None; a deleted one is not there, whatever rows are left of it."""
    c = scenario_batch.c
    return connection.execute(
        select(scenario_batch).where(c.id == batch_id, c.team_id == team_id, c.deleted_at.is_(None))
    ).one_or_none()


def list_batches(  # noqa: PLR0913 - one argument a filter
    connection: Connection,
    team_id: UUID,
    *,
    limit: int,
    before: tuple[datetime, UUID] | None = None,
    states: Sequence[str] = (),
    name: str | None = None,
    ids: Sequence[UUID] | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
) -> list[Row[Any]]:
    """Batches of the team, newest first, after the keyset position `before`."""
    columns = scenario_batch.c
    query = select(scenario_batch).where(columns.team_id == team_id, columns.deleted_at.is_(None))
    if before is not None:
        query = query.where(
            or_(
                columns.created_at < before[0],
                and_(columns.created_at == before[0], columns.id < before[1]),
            )
        )
    if states:
        query = query.where(columns.state.in_(states))
    if name is not None:
        query = query.where(columns.name == name)
    if ids is not None:
        query = query.where(columns.id.in_(ids))
    if created_after is not None:
        query = query.where(columns.created_at > created_after)
    if created_before is not None:
        query = query.where(columns.created_at < created_before)
    query = query.order_by(columns.created_at.desc(), columns.id.desc()).limit(limit)
    return list(connection.execute(query))


def num_unfinished(connection: Connection, team_id: UUID) -> int:
    """How many batches of the team still wait or run."""
    return (
        connection.scalar(
            select(func.count())
            .select_from(scenario_batch)
            .where(
                scenario_batch.c.team_id == team_id,
                scenario_batch.c.state.in_(UNFINISHED),
                scenario_batch.c.deleted_at.is_(None),
            )
        )
        or 0
    )


def list_items(
    connection: Connection, batch_ids: Sequence[UUID], *, after: int = -1, limit: int | None = None
) -> list[Row[Any]]:
    """Items of the batches, ordered by batch and position."""
    query = (
        select(batch_item)
        .where(batch_item.c.batch_id.in_(batch_ids), batch_item.c.position > after)
        .order_by(batch_item.c.batch_id, batch_item.c.position)
    )
    return list(connection.execute(query.limit(limit) if limit else query))


def item_counts(connection: Connection, batch_ids: Sequence[UUID]) -> dict[UUID, Mapping[str, int]]:
    """For each batch: how many items are untouched, partly done, done and wholly failed."""
    c = batch_item.c

    def number(condition: Any) -> Any:
        return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)

    complete = c.points_done == c.num_points
    rows = connection.execute(
        select(
            c.batch_id,
            number(c.points_done == 0).label("untouched"),
            number(and_(c.points_done > 0, c.points_done < c.num_points)).label("partly"),
            number(and_(complete, c.points_failed < c.num_points)).label("succeeded"),
            number(and_(complete, c.points_failed == c.num_points)).label("failed"),
        )
        .where(c.batch_id.in_(batch_ids))
        .group_by(c.batch_id)
    )
    return {row.batch_id: dict(row._mapping) for row in rows}  # noqa: SLF001 - public in SQLAlchemy


def claim_batch(
    connection: Connection, *, runner: str, now: datetime, lease_until: datetime
) -> Row[Any] | None:
    """Take the oldest batch that waits or whose runner is gone; None when there is none.

    Two runners never get the same batch: on PostgreSQL the row is locked and locked rows are
    passed over, on SQLite the transaction is the only writer.
    """
    c = scenario_batch.c
    free = or_(
        c.state == "queued",
        and_(
            c.state.in_(("running", "canceling")), or_(c.lease_until.is_(None), c.lease_until < now)
        ),
    )
    query = select(c.id).where(free).order_by(c.created_at, c.id).limit(1)
    if connection.dialect.name == "postgresql":
        query = query.with_for_update(skip_locked=True)
    batch_id = connection.scalar(query)
    if batch_id is None:
        return None
    connection.execute(
        update(scenario_batch)
        .where(c.id == batch_id)
        .values(
            runner=runner,
            lease_until=lease_until,
            state=case((c.state == "queued", "running"), else_=c.state),
            running_at=func.coalesce(c.running_at, now),
            version=c.version + 1,
        )
    )
    return connection.execute(select(scenario_batch).where(c.id == batch_id)).one()


def hold_batch(
    connection: Connection, batch_id: UUID, *, runner: str, lease_until: datetime | None
) -> str | None:
    """Renew (or, with None, give back) the lease; returns the state, or None when it is lost."""
    c = scenario_batch.c
    held = connection.execute(
        update(scenario_batch)
        .where(c.id == batch_id, c.runner == runner, c.state.in_(UNFINISHED))
        .values(lease_until=lease_until)
    )
    if held.rowcount != 1:
        return None
    return connection.scalar(select(c.state).where(c.id == batch_id))


def lease_holders(connection: Connection) -> list[str]:
    """Names of the runners that hold an unfinished batch with a lease."""
    c = scenario_batch.c
    return list(
        connection.scalars(
            select(c.runner)
            .where(c.state.in_(UNFINISHED), c.runner.is_not(None), c.lease_until.is_not(None))
            .distinct()
        )
    )


def end_leases(connection: Connection, runner: str) -> None:
    """End all leases of a runner: its batches may be taken at once."""
    connection.execute(
        update(scenario_batch)
        .where(scenario_batch.c.runner == runner, scenario_batch.c.state.in_(UNFINISHED))
        .values(lease_until=None)
    )


def written_chunks(connection: Connection, batch_id: UUID) -> set[int]:
    """The chunks that are already stored."""
    return set(
        connection.scalars(select(chunk_ledger.c.chunk).where(chunk_ledger.c.batch_id == batch_id))
    )


def record_chunk(
    connection: Connection,
    *,
    team_id: UUID,
    batch_id: UUID,
    chunk: int,
    items: Sequence[tuple[UUID, int, int]],
    now: datetime,
) -> None:
    """Write the ledger row and add `(item, points, failed points)` to the progress."""
    points = sum(item[1] for item in items)
    failed = sum(item[2] for item in items)
    connection.execute(
        insert(chunk_ledger).values(
            team_id=team_id,
            batch_id=batch_id,
            chunk=chunk,
            num_points=points,
            points_failed=failed,
            created_at=now,
        )
    )
    for item_id, num_points, num_failed in items:
        connection.execute(
            update(batch_item)
            .where(batch_item.c.id == item_id)
            .values(
                points_done=batch_item.c.points_done + num_points,
                points_failed=batch_item.c.points_failed + num_failed,
            )
        )
    connection.execute(
        update(scenario_batch)
        .where(scenario_batch.c.id == batch_id)
        .values(
            points_done=scenario_batch.c.points_done + points,
            points_failed=scenario_batch.c.points_failed + failed,
            version=scenario_batch.c.version + 1,
        )
    )


def set_state(
    connection: Connection, batch_id: UUID, state: str, *, expected: Sequence[str], **values: Any
) -> bool:
    """Move the batch to `state` if it is in one of the expected ones; whether it was."""
    c = scenario_batch.c
    result = connection.execute(
        update(scenario_batch)
        .where(c.id == batch_id, c.state.in_(expected))
        .values(state=state, version=c.version + 1, **values)
    )
    return result.rowcount == 1
