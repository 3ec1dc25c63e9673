"""What histories and the causes of changes read: revisions, rates, and runs of many batches."""

from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime
from typing import Any, TypeVar
from uuid import UUID

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, exists, func, or_, select

from service.db.schedule_tables import loss_change, schedule_run
from service.db.tables import (
    batch_item,
    cluster_profile_revision,
    gpu_hour_rate,
    pricing_line,
    result_summary,
    scenario_batch,
)

MOST_AT_ONCE = 5_000
"""Ids in one statement: databases limit their number."""

Item = TypeVar("Item")


class RunSlots(Struct, frozen=True, kw_only=True):
    """Which slots of a schedule; None is open.

    - `[first_on, before_on)`: local days, in the zone that the schedule had then;
    - `before`: only earlier ones;
    - `known_by`: only those that the ledger had by then, and whose time had come;
    - `with_batch`: not those that have none.
    """

    first_on: date | None = None
    before_on: date | None = None
    before: datetime | None = None
    known_by: datetime | None = None
    with_batch: bool = False


class SummaryFilter(Struct, frozen=True, kw_only=True):
    """Which headline results; None takes all. Days are those that windows begin on.

    `made_before` is a batch, by when it was made and its id: only earlier ones. `team_id` is that
    of the batches: with a name it leads to the few rows, past all others of the batches.
    """

    team_id: UUID | None = None
    name: str | None = None
    profile: str | None = None
    first_on: date | None = None
    before_on: date | None = None
    ended_by: datetime | None = None
    made_before: tuple[datetime, UUID] | None = None


def defaults_of_revisions(
    connection: Connection, revision_ids: Collection[UUID]
) -> dict[UUID, dict[str, Any]]:
    """The scenario of each revision of a profile."""
    table = cluster_profile_revision.c
    return {
        row.id: row.defaults
        for part in _parts(sorted(revision_ids))
        for row in connection.execute(select(table.id, table.defaults).where(table.id.in_(part)))
    }


def revisions_between(connection: Connection, past_id: UUID, new_id: UUID) -> list[Row[Any]]:
    """The revisions of a profile from the past one to the new one, both among them, by number.

    Nothing where they are of two profiles, or the past one is the newer.
    """
    of, past, new = (cluster_profile_revision.alias() for _ in range(3))
    query = (
        select(of.c.revision, of.c.defaults, of.c.provenance)
        .join(past, past.c.profile_id == of.c.profile_id)
        .join(new, new.c.profile_id == of.c.profile_id)
        .where(
            past.c.id == past_id,
            new.c.id == new_id,
            of.c.revision.between(past.c.revision, new.c.revision),
        )
        .order_by(of.c.revision)
    )
    return list(connection.execute(query))


def list_rates(connection: Connection, rate_ids: Collection[UUID]) -> list[Row[Any]]:
    """What each of the rates prices and by which it was corrected."""
    table = gpu_hour_rate.c
    found: list[Row[Any]] = []
    for part in _parts(sorted(rate_ids)):
        query = select(
            *(table.id, table.gpu_type, table.cost_center, table.superseded_by),
        ).where(table.id.in_(part))
        found.extend(connection.execute(query))
    return found


def list_slots(
    connection: Connection, schedule_id: UUID, slots: RunSlots, *, limit: int
) -> list[Row[Any]]:
    """The newest slots of the schedule with the attempts at them, oldest first."""
    c = schedule_run.c
    query: Select[Any] = select(
        *(c.id, c.scheduled_for, c.local_time, c.attempt, c.state),
        *(c.batch_id, c.earlier_batches, c.started_at, c.ended_at),
    ).where(c.schedule_id == schedule_id, *_of_days(slots))
    if slots.before is not None:
        query = query.where(c.scheduled_for < slots.before)
    if slots.known_by is not None:
        query = query.where(c.scheduled_for <= slots.known_by, c.created_at <= slots.known_by)
    if slots.with_batch:
        query = query.where(c.batch_id.is_not(None))
    query = query.order_by(c.scheduled_for.desc(), c.id.desc()).limit(limit)
    return list(connection.execute(query))[::-1]


def _of_days(slots: RunSlots) -> list[ColumnElement[bool]]:
    """By the wall time that was written down: a schedule may have moved to another zone since."""
    local_on = func.substr(schedule_run.c.local_time, 1, len("2026-12-01"))
    found: list[ColumnElement[bool]] = []
    if slots.first_on is not None:
        found.append(local_on >= slots.first_on.isoformat())
    if slots.before_on is not None:
        found.append(local_on < slots.before_on.isoformat())
    return found


def list_ended_batches(
    connection: Connection, team_id: UUID, batch_ids: Collection[UUID], ended_by: datetime | None
) -> list[Row[Any]]:
    """Those of the batches that are there and had ended by then."""
    c = scenario_batch.c
    found: list[Row[Any]] = []
    for part in _parts(sorted(batch_ids)):
        query = select(*_BATCH).where(c.id.in_(part), c.team_id == team_id, *_ended(ended_by))
        found.extend(connection.execute(query))
    return found


def newest_batches(
    connection: Connection,
    team_id: UUID,
    wanted: SummaryFilter,
    *,
    limit: int,
    by_day: bool = False,
) -> list[Row[Any]]:
    """The newest ended batches that have a headline result as wanted, oldest first.

    They are as new as they were made, or `by_day`, as late as their windows begin.
    """
    c = scenario_batch.c
    summary = result_summary.c
    of_batch: ColumnElement[bool] = exists().where(summary.batch_id == c.id, *_wanted(wanted))
    if wanted.name is not None:
        # By the index of names: few of all batches may have it.
        named = select(summary.batch_id).where(summary.team_id == team_id, *_wanted(wanted))
        of_batch = c.id.in_(named)
    order = (*([c.start_on.desc()] if by_day else []), c.created_at.desc(), c.id.desc())
    query: Select[Any] = (
        select(*_BATCH)
        .where(c.team_id == team_id, *_ended(wanted.ended_by), of_batch, *_made(wanted))
        .order_by(*order)
        .limit(limit)
    )
    return list(connection.execute(query))[::-1]


def list_summaries(
    connection: Connection, batch_ids: Sequence[UUID], wanted: SummaryFilter, *, limit: int
) -> list[Row[Any]]:
    """Headline results of the batches, with the custom ids and seeds of their items."""
    c = result_summary.c
    # As text: it may be larger than the integers of PostgreSQL.
    seed = batch_item.c.scenario["seed"].as_string().label("seed")
    query = (
        select(result_summary, batch_item.c.custom_id, seed)
        .join(batch_item, batch_item.c.id == c.item_id)
        .where(c.batch_id.in_(batch_ids), *_wanted(wanted))
        .order_by(c.batch_id, c.point)
        .limit(limit)
    )
    return list(connection.execute(query))


def with_results(
    connection: Connection, batch_ids: Collection[UUID], wanted: SummaryFilter
) -> set[UUID]:
    """Those of the batches that have a headline result as wanted."""
    c = result_summary.c
    query = select(c.batch_id).where(c.batch_id.in_(batch_ids), *_wanted(wanted)).distinct()
    return set(connection.scalars(query))


def list_absent(
    connection: Connection, batch_ids: Sequence[UUID], wanted: SummaryFilter, *, limit: int
) -> list[Row[Any]]:
    """Items of the batches that have no headline result: batch_id, custom_id, name, profile."""
    c = batch_item.c
    told = exists().where(result_summary.c.item_id == c.id)
    query = (
        select(c.batch_id, c.custom_id, c.name, c.profile_slug)
        .where(c.batch_id.in_(batch_ids), ~told, *_wanted_items(wanted))
        .limit(limit)
    )
    return list(connection.execute(query))


def count_items(
    connection: Connection, batch_ids: Sequence[UUID], wanted: SummaryFilter
) -> list[Row[Any]]:
    """Items of each batch and profile: all of them, and those that name a headline point."""
    c = batch_item.c
    query = select(
        c.batch_id,
        c.profile_slug,
        func.count().label("items"),
        func.count(c.headline_point).label("headlined"),
    ).where(c.batch_id.in_(batch_ids), *_wanted_items(wanted))
    return list(connection.execute(query.group_by(c.batch_id, c.profile_slug)))


def list_lines(
    connection: Connection, pricing_ids: Sequence[UUID], item_ids: Collection[UUID] | None
) -> list[Row[Any]]:
    """Lines of the pricings in the order of the days they stand for, of all items or some."""
    c = pricing_line.c
    query = select(c.pricing_id, c.item_id, c.rate_id, c.amount, c.num_days).where(
        c.pricing_id.in_(pricing_ids)
    )
    # Of very many items all lines are read: a statement takes only so many parameters.
    if item_ids is not None and len(item_ids) <= MOST_AT_ONCE:
        query = query.where(c.item_id.in_(sorted(item_ids)))
    return list(connection.execute(query.order_by(c.item_id, c.id)))


def list_changes(
    connection: Connection,
    pairs: Collection[tuple[UUID, UUID]],
    *,
    name: str | None = None,
) -> list[Row[Any]]:
    """What reports have told of batches and the ones before them, the oldest report first."""
    c = loss_change.c
    found: list[Row[Any]] = []
    for part in _parts(sorted(pairs)):
        query = select(
            *(c.report_id, c.batch_id, c.point, c.past_batch_id, c.past_point, c.causes)
        ).where(
            c.batch_id.in_([new for new, _ in part]),
            c.past_batch_id.in_([past for _, past in part]),
        )
        if name is not None:
            query = query.where(c.name == name)
        found.extend(connection.execute(query))
    # Ids tell the order in which reports were asked for
    return sorted(found, key=lambda row: row.report_id)


_BATCH = (
    *(scenario_batch.c.id, scenario_batch.c.name, scenario_batch.c.created_at),
    *(scenario_batch.c.start_on, scenario_batch.c.currency, scenario_batch.c.model_version),
    *(scenario_batch.c.ended_at, scenario_batch.c.state, scenario_batch.c.items_total),
)


def _ended(ended_by: datetime | None) -> list[ColumnElement[bool]]:
    c = scenario_batch.c
    found: list[ColumnElement[bool]] = [c.deleted_at.is_(None), c.ended_at.is_not(None)]
    return found if ended_by is None else [*found, c.ended_at <= ended_by]


def _made(wanted: SummaryFilter) -> list[ColumnElement[bool]]:
    if wanted.made_before is None:
        return []
    c = scenario_batch.c
    at, batch_id = wanted.made_before
    return [or_(c.created_at < at, and_(c.created_at == at, c.id < batch_id))]


def _wanted(wanted: SummaryFilter) -> list[ColumnElement[bool]]:
    return _wanted_of(result_summary.c, wanted)


def _wanted_items(wanted: SummaryFilter) -> list[ColumnElement[bool]]:
    return _wanted_of(batch_item.c, wanted)


def _wanted_of(c: Any, wanted: SummaryFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.name is not None:
        found.append(c.name == wanted.name)
        if wanted.team_id is not None:
            found.append(c.team_id == wanted.team_id)
    if wanted.profile is not None:
        found.append(c.profile_slug == wanted.profile)
    if wanted.first_on is not None:
        found.append(c.start_on >= wanted.first_on)
    if wanted.before_on is not None:
        found.append(c.start_on < wanted.before_on)
    return found


def _parts(found: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(found), MOST_AT_ONCE):
        yield found[start : start + MOST_AT_ONCE]
