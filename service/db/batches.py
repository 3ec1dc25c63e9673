"""Batches, their items and the chunk ledger."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Connection,
    Row,
    and_,
    case,
    func,
    insert,
    or_,
    select,
    update,
)

from service.db.name_search import contains
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
    name_contains: str | None = None,
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
    if name_contains is not None:
        query = query.where(contains(connection, columns.name, name_contains))
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


def list_item_heads(connection: Connection, batch_id: UUID) -> list[Row[Any]]:
    """What tells the items of a batch apart, in order, without their scenarios.

    Those are long, and reading them takes most of the time of a comparison: only the seed and the
    length of the window are picked out of each.
    """
    c = batch_item.c
    query = (
        select(
            *(c.id, c.name, c.profile_slug, c.headline_point, c.num_points),
            func.json_array_length(c.axes).label("num_axes"),
            # As text: it may be larger than the integers of PostgreSQL.
            c.scenario["seed"].as_string().label("seed"),
            c.scenario["period_days"].as_integer().label("period_days"),
        )
        .where(c.batch_id == batch_id)
        .order_by(c.position)
    )
    return list(connection.execute(query))


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


def start_batch(connection: Connection, batch_id: UUID, now: datetime) -> None:
    """Note that the first chunk is being computed, if the batch still waits."""
    c = scenario_batch.c
    connection.execute(
        update(scenario_batch)
        .where(c.id == batch_id, c.state == "queued")
        .values(state="running", running_at=now, version=c.version + 1)
    )


def lock_batch(connection: Connection, batch_id: UUID) -> Row[Any] | None:
    """The batch, not changed by anybody else until the transaction ends; None when it is gone.

    On SQLite the transaction is the only writer already. On PostgreSQL the key is left out of the
    lock: each chunk's blocks refer to it, and two chunks would wait for each other for ever.
    """
    query = select(scenario_batch).where(scenario_batch.c.id == batch_id)
    if connection.dialect.name == "postgresql":
        query = query.with_for_update(key_share=True)
    return connection.execute(query).one_or_none()


def begin_change(connection: Connection, batch_id: UUID) -> bool:
    """Move the version on, and let nobody else change the batch before the transaction ends.

    False when the batch is deleted or gone. What the transaction reads after this is what the one
    before it has left; the key is not locked, as with `lock_batch`.
    """
    c = scenario_batch.c
    changed = connection.execute(
        update(scenario_batch)
        .where(c.id == batch_id, c.deleted_at.is_(None))
        .values(version=c.version + 1)
    )
    return changed.rowcount == 1


def find_batch(connection: Connection, batch_id: UUID) -> Row[Any] | None:
    """The batch, whatever its team; None when it is gone."""
    return connection.execute(
        select(scenario_batch).where(scenario_batch.c.id == batch_id)
    ).one_or_none()


def unsent_batches(connection: Connection, version: int, limit: int) -> list[Row[Any]]:
    """Unfinished batches whose chunks no workflow of the version was made for, oldest first."""
    c = scenario_batch.c
    return list(
        connection.execute(
            select(c.id, c.team_id, c.priority, c.points_total, c.chunk_points)
            .where(
                c.state.in_(("queued", "running")),
                or_(c.enqueued_version.is_(None), c.enqueued_version < version),
            )
            .order_by(c.created_at, c.id)
            .limit(limit)
        )
    )


def mark_sent(connection: Connection, batch_id: UUID, version: int) -> None:
    """Note that workflows of the version were made for the batch's chunks."""
    connection.execute(
        update(scenario_batch)
        .where(scenario_batch.c.id == batch_id)
        .values(enqueued_version=version)
    )


def has_unfinished(connection: Connection) -> bool:
    """Whether any batch waits or runs."""
    found = select(scenario_batch.c.id).where(scenario_batch.c.state.in_(UNFINISHED)).limit(1)
    return connection.scalar(found) is not None


def batches_to_end(connection: Connection, now: datetime, limit: int) -> list[UUID]:
    """Unfinished batches that are to be canceled, are past their deadline or have all points."""
    c = scenario_batch.c
    return list(
        connection.scalars(
            select(c.id)
            .where(
                c.state.in_(UNFINISHED),
                or_(
                    c.state == "canceling",
                    c.deadline_at <= now,
                    c.points_done >= c.points_total,
                ),
            )
            .order_by(c.created_at, c.id)
            .limit(limit)
        )
    )


def items_of_points(
    connection: Connection, batch_id: UUID, start: int, stop: int
) -> list[Row[Any]]:
    """The items that have points in [start, stop), in order."""
    c = batch_item.c
    return list(
        connection.execute(
            select(batch_item)
            .where(
                c.batch_id == batch_id, c.first_point < stop, c.first_point + c.num_points > start
            )
            .order_by(c.position)
        )
    )


def written_chunks(connection: Connection, batch_id: UUID) -> set[int]:
    """The chunks that are already stored."""
    return set(
        connection.scalars(select(chunk_ledger.c.chunk).where(chunk_ledger.c.batch_id == batch_id))
    )


def chunk_failures(connection: Connection, batch_id: UUID) -> dict[int, str]:
    """The chunks that could not be computed, each with its reason."""
    c = chunk_ledger.c
    rows = connection.execute(
        select(c.chunk, c.failure)
        .where(c.batch_id == batch_id, c.failure.is_not(None))
        .order_by(c.chunk)
    )
    return {row.chunk: row.failure for row in rows}


def get_chunk(connection: Connection, batch_id: UUID, chunk: int) -> Row[Any] | None:
    """The ledger row of a chunk; None when it is not recorded."""
    return connection.execute(
        select(chunk_ledger).where(
            chunk_ledger.c.batch_id == batch_id, chunk_ledger.c.chunk == chunk
        )
    ).one_or_none()


def record_chunk(
    connection: Connection,
    *,
    team_id: UUID,
    batch_id: UUID,
    chunk: int,
    items: Sequence[tuple[UUID, int, int]],
    now: datetime,
    worker: str | None,
    failure: str | None = None,
) -> None:
    """Write the ledger row and add `(item, points, failed points)` to the progress.

    `failure` says why the chunk could not be computed: it has no blocks then.
    """
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
            worker=worker,
            failure=failure,
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
