"""The outbox and the log of it: rows of deliveries and of the attempts to send them."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import ColumnElement, Select, and_, delete, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from service.db.engine import Connection, Row
from service.db.tables import delivery, delivery_attempt, schedule

PENDING: Final = "pending"
# Of what is due so many are looked at: more than a process has places for.
PER_LANE_LISTED: Final = 4
PER_TEAM_LISTED: Final = 40
# A page of these is sorted by them; the id makes the order whole.
Position = tuple[datetime, UUID]


class DeliveryFilter(Struct, frozen=True, kw_only=True):
    """Which deliveries a list holds; `schedule` is the id or the slug of one.

    Without `sees_costs` those whose state may tell of money are in no list by state.
    """

    state: str | None = None
    kind: str | None = None
    schedule: str | None = None
    run_id: UUID | None = None
    endpoint_id: UUID | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    sees_costs: bool = True


def insert_once(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> list[UUID]:
    """Write deliveries, except those whose dedup_key is there; the ids of the written ones."""
    on_postgresql = connection.dialect.name == "postgresql"
    dialect_insert = postgresql.insert if on_postgresql else sqlite.insert
    written: list[UUID] = []
    for row in rows:
        statement = dialect_insert(delivery).values(**row)
        statement = statement.on_conflict_do_nothing(index_elements=["team_id", "dedup_key"])
        written += connection.scalars(statement.returning(delivery.c.id)).all()
    return written


def get_delivery(connection: Connection, team_id: UUID, delivery_id: UUID) -> Row[Any] | None:
    """One delivery of the team with the slug of its schedule, or None."""
    c = delivery.c
    query = _with_schedule().where(c.team_id == team_id, c.id == delivery_id)
    return connection.execute(query).one_or_none()


def list_deliveries(
    connection: Connection,
    team_id: UUID,
    wanted: DeliveryFilter,
    *,
    after: Position | None,
    limit: int,
) -> list[Row[Any]]:
    """Deliveries of the team, newest first, after (that is, older than) the position."""
    c = delivery.c
    query = _with_schedule().where(c.team_id == team_id, *_conditions(team_id, wanted))
    if after is not None:
        moment, last = after
        query = query.where(or_(c.created_at < moment, and_(c.created_at == moment, c.id < last)))
    return list(connection.execute(query.order_by(c.created_at.desc(), c.id.desc()).limit(limit)))


def list_attempts(connection: Connection, delivery_id: UUID, *, limit: int) -> list[Row[Any]]:
    """The newest attempts of a delivery, oldest of them first."""
    c = delivery_attempt.c
    query = select(delivery_attempt).where(c.delivery_id == delivery_id)
    found = connection.execute(query.order_by(c.attempt.desc()).limit(limit)).all()
    return list(reversed(found))


def set_state(
    connection: Connection,
    delivery_id: UUID,
    state: str,
    *,
    expected: Collection[str],
    **values: Any,
) -> bool:
    """Move it to `state` from one of the expected ones; whether it was in one."""
    c = delivery.c
    changed = connection.execute(
        update(delivery)
        .where(c.id == delivery_id, c.state.in_(expected))
        .values(state=state, version=c.version + 1, **values)
    )
    return changed.rowcount == 1


def cancel_pending(
    connection: Connection, endpoint_id: UUID, *, error: str, now: datetime
) -> list[UUID]:
    """Cancel what waits for an endpoint; the ids."""
    c = delivery.c
    canceled = connection.scalars(
        update(delivery)
        .where(c.endpoint_id == endpoint_id, c.state == PENDING)
        .values(
            state="canceled",
            version=c.version + 1,
            ended_at=now,
            next_attempt_at=None,
            last_error=error[:500],
        )
        .returning(c.id)
    )
    return list(canceled.all())


def num_pending(connection: Connection, endpoint_id: UUID, event: str) -> int:
    """How many messages of this event wait for an endpoint."""
    c = delivery.c
    query = select(func.count()).where(
        c.endpoint_id == endpoint_id, c.state == PENDING, c.event == event
    )
    return connection.scalar(query) or 0


def any_with_costs(connection: Connection, endpoint_id: UUID) -> bool:
    """Whether anything with money waits for the endpoint or stands in its log."""
    c = delivery.c
    query = select(c.id).where(c.endpoint_id == endpoint_id, c.include_costs.is_(True)).limit(1)
    return connection.execute(query).first() is not None


def any_due(connection: Connection, now: datetime) -> bool:
    """Whether something may be sent now."""
    return connection.execute(select(delivery.c.id).where(_due(now)).limit(1)).first() is not None


def list_due(
    connection: Connection,
    now: datetime,
    *,
    kinds: Collection[str],
    full_endpoints: Collection[UUID],
    busy: Collection[UUID],
) -> list[Row[Any]]:
    """(id, kind, team_id, endpoint_id) of what may be sent now but `busy`, longest due first.

    Of each team and kind some only, so that a team with very much leaves none of the others out.
    """
    c = delivery.c
    first = (c.next_attempt_at, c.id)
    of_lane = func.row_number().over(
        partition_by=(c.kind, c.team_id, c.endpoint_id), order_by=first
    )
    columns = (c.id, c.kind, c.team_id, c.endpoint_id, c.next_attempt_at)
    query = select(*columns, of_lane.label("of_lane")).where(_due(now), c.kind.in_(kinds))
    if busy:
        query = query.where(c.id.not_in(busy))
    if full_endpoints:
        query = query.where(or_(c.endpoint_id.is_(None), c.endpoint_id.not_in(full_endpoints)))
    lanes = query.subquery()
    of_team = func.row_number().over(
        partition_by=(lanes.c.kind, lanes.c.team_id), order_by=(lanes.c.next_attempt_at, lanes.c.id)
    )
    teams = (
        select(lanes, of_team.label("of_team")).where(lanes.c.of_lane <= PER_LANE_LISTED).subquery()
    )
    t = teams.c
    chosen = (
        select(t.id, t.kind, t.team_id, t.endpoint_id)
        .where(t.of_team <= PER_TEAM_LISTED)
        .order_by(t.next_attempt_at, t.id)
    )
    return list(connection.execute(chosen))


def lock_due(
    connection: Connection, now: datetime, delivery_ids: Collection[UUID]
) -> list[Row[Any]]:
    """Those that may still be sent now, held until the transaction ends.

    Those that another process holds are left out.
    """
    query = select(delivery).where(_due(now), delivery.c.id.in_(delivery_ids))
    query = query.order_by(delivery.c.id)
    return list(connection.execute(query.with_for_update(skip_locked=True)))


def claim(connection: Connection, delivery_id: UUID, **values: Any) -> None:
    """Note who sends it and until when; the caller has locked the row."""
    connection.execute(update(delivery).where(delivery.c.id == delivery_id).values(**values))


def renew(
    connection: Connection, delivery_ids: Collection[UUID], *, claimed_by: str, until: datetime
) -> None:
    """Hold what is still being sent for longer."""
    c = delivery.c
    connection.execute(
        update(delivery)
        .where(c.id.in_(delivery_ids), c.claimed_by == claimed_by, c.state == PENDING)
        .values(claimed_until=until)
    )


def lock_delivery(connection: Connection, delivery_id: UUID) -> Row[Any] | None:
    """The row, held until the transaction ends, or None."""
    query = select(delivery).where(delivery.c.id == delivery_id).with_for_update()
    return connection.execute(query).one_or_none()


def add_attempt(connection: Connection, **columns: Any) -> None:
    """Write an attempt."""
    connection.execute(insert(delivery_attempt).values(**columns))


def num_attempts(connection: Connection, delivery_id: UUID, since: datetime) -> int:
    """Attempts since the moment: those of the round that began then."""
    c = delivery_attempt.c
    query = select(func.count()).where(c.delivery_id == delivery_id, c.created_at >= since)
    return connection.scalar(query) or 0


def change_delivery(connection: Connection, delivery_id: UUID, **values: Any) -> None:
    """Change a row that the caller has locked."""
    c = delivery.c
    connection.execute(
        update(delivery).where(c.id == delivery_id).values(version=c.version + 1, **values)
    )


def num_by_state(connection: Connection) -> dict[str, int]:
    """How many deliveries are in each state, over all teams."""
    query = select(delivery.c.state, func.count()).group_by(delivery.c.state)
    return {row.state: row[1] for row in connection.execute(query)}


def oldest_pending(connection: Connection) -> datetime | None:
    """When the oldest delivery that still waits was planned."""
    c = delivery.c
    found: datetime | None = connection.scalar(
        select(func.min(c.created_at)).where(c.state == PENDING)
    )
    return found


def count_old(connection: Connection, before: datetime) -> tuple[int, datetime | None]:
    """How many ended deliveries the log would lose that are older, and the oldest of them."""
    c = delivery.c
    query = select(func.count(), func.min(c.created_at)).where(_old(before))
    number, oldest = connection.execute(query).one()
    return number, oldest


def delete_old(connection: Connection, before: datetime, *, limit: int) -> list[tuple[UUID, UUID]]:
    """Delete at most so many of them with their attempts; (team, id) of each.

    Those whose files are still to be removed stay: only the log knows that the files are ours.
    """
    c = delivery.c
    # The attempts go with them by the foreign key.
    ids = select(c.id).where(_old(before)).order_by(c.created_at).limit(limit)
    gone = connection.execute(delete(delivery).where(c.id.in_(ids)).returning(c.team_id, c.id))
    return [(row.team_id, row.id) for row in gone]


def list_with_old_files(
    connection: Connection, now: datetime, *, limit: int, after: Position | None = None
) -> list[Row[Any]]:
    """Directory deliveries whose files are to be removed by now, the longest due first."""
    c = delivery.c
    query = select(delivery).where(c.files_expire_at <= now)
    if after is not None:
        moment, last = after
        later = and_(c.files_expire_at == moment, c.id > last)
        query = query.where(or_(c.files_expire_at > moment, later))
    return list(connection.execute(query.order_by(c.files_expire_at, c.id).limit(limit)))


def _with_schedule() -> Select[Any]:
    return select(delivery, schedule.c.slug.label("schedule_slug")).outerjoin(
        schedule, schedule.c.id == delivery.c.schedule_id
    )


def _conditions(team_id: UUID, wanted: DeliveryFilter) -> list[ColumnElement[bool]]:
    c = delivery.c
    pairs = (
        (c.state, wanted.state),
        (c.kind, wanted.kind),
        (c.run_id, wanted.run_id),
        (c.endpoint_id, wanted.endpoint_id),
    )
    found: list[ColumnElement[bool]] = [
        column == value for column, value in pairs if value is not None
    ]
    if wanted.state is not None and not wanted.sees_costs:
        is_always = func.coalesce(c.target["when"].as_string(), "always") == "always"
        found.append(or_(c.include_costs.is_(False), is_always))
    if wanted.schedule is not None:
        named: ColumnElement[bool] = schedule.c.unique_slug == wanted.schedule
        with suppress(ValueError):
            named = or_(named, schedule.c.id == UUID(wanted.schedule))
        ids = select(schedule.c.id).where(schedule.c.team_id == team_id, named)
        found.append(c.schedule_id.in_(ids))
    if wanted.created_after is not None:
        found.append(c.created_at > wanted.created_after)
    if wanted.created_before is not None:
        found.append(c.created_at < wanted.created_before)
    return found


def _due(now: datetime) -> ColumnElement[bool]:
    c = delivery.c
    return and_(
        c.state == PENDING,
        c.next_attempt_at <= now,
        or_(c.claimed_until.is_(None), c.claimed_until <= now),
    )


def _old(before: datetime) -> ColumnElement[bool]:
    c = delivery.c
    return and_(c.state != PENDING, c.created_at < before, c.files_expire_at.is_(None))
