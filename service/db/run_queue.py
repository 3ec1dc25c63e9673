"""Which runs are to begin or to be handed over, by state: the whole ledger is never read."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, Select, and_, func, or_, select, update

from service.db.batches import UNFINISHED
from service.db.schedule_tables import schedule, schedule_run
from service.db.tables import result_summary, scenario_batch

ACTIVE = ("running", "reporting")
UNFINISHED_RUNS = ("due", *ACTIVE)
WITH_RESULTS = ("succeeded", "partially_failed")


def waiting_groups(connection: Connection) -> list[Row[Any]]:
    """(schedule_id, backfill_id, first_for) of what waits to begin, the oldest first.

    What is no backfill goes before all backfills, whose slots are older: what is left of the
    team's quota and of its queue is for tonight.
    """
    c = schedule_run.c
    first = func.min(c.scheduled_for)
    query = (
        select(c.schedule_id, c.backfill_id, first.label("first_for"))
        .where(c.state == "due")
        .group_by(c.schedule_id, c.backfill_id)
        .order_by(c.backfill_id.is_not(None), first, c.schedule_id)
    )
    return list(connection.execute(query))


def waiting_runs(
    connection: Connection,
    schedule_id: UUID,
    backfill_id: UUID | None,
    *,
    kinds: Sequence[str] = (),
    newest_first: bool = False,
    limit: int | None = None,
) -> list[Row[Any]]:
    """What of a schedule, or of a backfill, waits to begin, in the order in which it begins."""
    c = schedule_run.c
    query = select(schedule_run).where(
        c.schedule_id == schedule_id, c.state == "due", _of_backfill(backfill_id)
    )
    if kinds:
        query = query.where(c.kind.in_(kinds))
    order = c.scheduled_for.desc() if newest_first else c.scheduled_for
    return list(connection.execute(query.order_by(order, c.id).limit(limit)))


def active_runs(connection: Connection, schedule_id: UUID | None = None) -> list[Row[Any]]:
    """Runs that have begun and not ended, with `computes`: whether the batch still does."""
    c, batch = schedule_run.c, scenario_batch.c
    query = (
        select(
            c.id,
            c.schedule_id,
            c.backfill_id,
            c.state,
            c.scheduled_for,
            c.local_time,
            c.batch_id,
            c.warnings,
            _computes().label("computes"),
        )
        .outerjoin(scenario_batch, batch.id == c.batch_id)
        .where(c.state.in_(ACTIVE))
        .order_by(c.scheduled_for, c.id)
    )
    if schedule_id is not None:
        query = query.where(c.schedule_id == schedule_id)
    return list(connection.execute(query))


def runs_to_hand_over(connection: Connection) -> list[UUID]:
    """Runs whose batch has ended or is gone, and that no earlier one may still tell of.

    A run waits for those of earlier slots of its schedule which are due or computing: what it is
    compared with must not hang on who was faster. Those of backfills wait for each other alone,
    those that are compared with the run before for all backfills of the schedule; tonight's run
    waits for none of them. What has not begun of a paused schedule holds nobody up.
    """
    c = schedule_run.c
    query: Select[Any] = (
        select(c.id, c.schedule_id, c.backfill_id, c.scheduled_for, c.settings)
        .outerjoin(scenario_batch, scenario_batch.c.id == c.batch_id)
        .where(c.state == "running", ~_computes())
        .order_by(c.scheduled_for, c.id)
    )
    ended = list(connection.execute(query))
    if not ended:
        return []
    first = _first_unfinished(connection)
    return [row.id for row in ended if not _waits(row, first)]


def _waits(row: Row[Any], first: Mapping[tuple[UUID, UUID | None], datetime]) -> bool:
    """Whether a run whose batch has ended must wait for one of an earlier slot."""
    own = (row.schedule_id, row.backfill_id)
    before = [first[own]] if own in first else []
    baseline = (row.settings or {}).get("baseline") or {}
    if row.backfill_id is not None and baseline.get("kind") == "previous":
        before += [
            moment
            for (schedule_id, backfill_id), moment in first.items()
            if schedule_id == row.schedule_id and backfill_id is not None
        ]
    return any(moment < row.scheduled_for for moment in before)


def _first_unfinished(connection: Connection) -> dict[tuple[UUID, UUID | None], datetime]:
    """Of each schedule and backfill: the earliest slot that others must wait for.

    Read by state, which few rows have; a ledger of years has many slots before each run.
    """
    c = schedule_run.c
    rows = connection.execute(
        select(c.schedule_id, c.backfill_id, func.min(c.scheduled_for).label("first_for"))
        .join(schedule, schedule.c.id == c.schedule_id)
        .outerjoin(scenario_batch, scenario_batch.c.id == c.batch_id)
        .where(
            c.state.in_(("due", "running")),
            or_(and_(c.state == "due", schedule.c.paused_at.is_(None)), _computes()),
        )
        .group_by(c.schedule_id, c.backfill_id)
    )
    return {(row.schedule_id, row.backfill_id): row.first_for for row in rows}


def has_headline(connection: Connection, batch_id: UUID) -> bool:
    """Whether any headline point of the batch has a result."""
    query = select(result_summary.c.id).where(result_summary.c.batch_id == batch_id).limit(1)
    return connection.scalar(query) is not None


def newest_with_results(
    connection: Connection,
    schedule_id: UUID,
    *,
    before: datetime | None = None,
    until: datetime | None = None,
    other_than: UUID | None = None,
) -> Row[Any] | None:
    """The run of the newest slot before, or not after, a moment whose batch has results."""
    c = schedule_run.c
    query = (
        select(schedule_run)
        .join(scenario_batch, scenario_batch.c.id == c.batch_id)
        .where(c.schedule_id == schedule_id, _has_results())
    )
    if before is not None:
        query = query.where(c.scheduled_for < before)
    if until is not None:
        query = query.where(c.scheduled_for <= until)
    if other_than is not None:
        query = query.where(c.id != other_than)
    query = query.order_by(c.scheduled_for.desc(), c.id.desc()).limit(1)
    return connection.execute(query).one_or_none()


def with_results(connection: Connection, schedule_id: UUID, run_id: UUID) -> Row[Any] | None:
    """The run of the schedule if its batch has results, else None."""
    c = schedule_run.c
    return connection.execute(
        select(schedule_run)
        .join(scenario_batch, scenario_batch.c.id == c.batch_id)
        .where(c.id == run_id, c.schedule_id == schedule_id, _has_results())
    ).one_or_none()


def cancel_waiting(
    connection: Connection,
    schedule_id: UUID,
    *,
    reason: str,
    now: datetime,
    backfill_id: UUID | None = None,
) -> int:
    """End what of the schedule, or only of the backfill, has not begun; how many runs."""
    c = schedule_run.c
    query = update(schedule_run).where(c.schedule_id == schedule_id, c.state == "due")
    if backfill_id is not None:
        query = query.where(c.backfill_id == backfill_id)
    changed = connection.execute(
        query.values(
            state="canceled",
            reason=reason,
            ended_at=now,
            updated_at=now,
            not_before=None,
            version=c.version + 1,
        )
    )
    return changed.rowcount


def unfinished_runs(connection: Connection) -> dict[str, int]:
    """How many runs of all teams are due, computing and being reported on."""
    c = schedule_run.c
    rows = connection.execute(
        select(c.state, func.count().label("num_runs"))
        .where(c.state.in_(UNFINISHED_RUNS))
        .group_by(c.state)
    )
    found = {row.state: row.num_runs for row in rows}
    return {state: found.get(state, 0) for state in UNFINISHED_RUNS}


def oldest_due(connection: Connection) -> datetime | None:
    """Since when the oldest run is due that nothing of its own holds back.

    Runs of a backfill wait for each other, and those of a paused schedule for somebody.
    """
    c = schedule_run.c
    query = (
        select(func.min(c.created_at))
        .join(schedule, schedule.c.id == c.schedule_id)
        .where(c.state == "due", c.backfill_id.is_(None), schedule.c.paused_at.is_(None))
    )
    found: datetime | None = connection.scalar(query)
    return found


def num_missed(connection: Connection, since: datetime) -> int:
    """How many slots were found missed since then, and not run."""
    c = schedule_run.c
    query = select(func.count()).where(c.state == "misfired", c.created_at >= since)
    return connection.scalar(query) or 0


def _of_backfill(backfill_id: UUID | None) -> Any:
    column = schedule_run.c.backfill_id
    return column.is_(None) if backfill_id is None else column == backfill_id


def _computes() -> Any:
    batch = scenario_batch.c
    return func.coalesce(and_(batch.state.in_(UNFINISHED), batch.deleted_at.is_(None)), False)


def _has_results() -> Any:
    batch = scenario_batch.c
    return and_(batch.state.in_(WITH_RESULTS), batch.deleted_at.is_(None))
