"""The runs that a history is about, read from the database: batches with their headline points."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import Struct, structs

from service.db import histories
from service.db.engine import Connection, Row
from service.db.histories import RunSlots, SummaryFilter
from service.errors import MalformedError
from service.jobs.actors import Actor
from service.jobs.history_days import Days, local_day, step_start
from service.jobs.history_documents import HistoryQuery
from service.jobs.history_prices import RunPrices, read_run_prices
from service.reports.history import Run, ScheduledRun
from service.reports.history_totals import Absent, LeftOut, Snapshot
from service.reports.pairing import Known

MOST_ROWS = 50_000
"""Headline points that one history is made from."""
MOST_ABSENT = 200_000
"""Items without numbers that one history tells from those that came and went."""
SLOTS_BACK = 100
"""Slots with a batch that are looked through for the run before the first one shown."""


class Found(Struct, frozen=True, kw_only=True):
    """The snapshots, oldest first, and what has no place among them.

    - `before`: the run that the first ones are compared with, and which is not shown;
    - `truncated`: the limit left out older ones.
    """

    snapshots: list[Snapshot]
    before: Snapshot | None
    truncated: bool
    without_results: dict[str, int]

    @property
    def all_snapshots(self) -> list[Snapshot]:
        """With that before them."""
        return [*([] if self.before is None else [self.before]), *self.snapshots]


class _Entry(NamedTuple):
    """A batch, and the slot that it was computed for."""

    batch: Row[Any]
    scheduled: ScheduledRun | None


def read_runs(
    connection: Connection,
    actor: Actor,
    query: HistoryQuery,
    *,
    schedule: Row[Any] | None,
    days: Days,
) -> Found:
    """The newest `limit` batches as the query asks for, each with its headline points.

    Raises `MalformedError` where those are more than can be told at once.
    """
    wanted = SummaryFilter(
        team_id=actor.team_id,
        name=query.scenario,
        profile=query.profile,
        first_on=days.first_on if schedule is None else None,
        before_on=days.before_on if schedule is None else None,
        ended_by=query.as_of,
    )
    without_results: dict[str, int] = {}
    if schedule is None:
        batches = histories.newest_batches(connection, actor.team_id, wanted, limit=query.limit + 1)
        truncated = len(batches) > query.limit
        entries = [_Entry(batch, None) for batch in batches[-query.limit :]]
        earlier = _batch_before(connection, actor, query, entries, wanted)
    else:
        slots = RunSlots(first_on=days.first_on, before_on=days.before_on, known_by=query.as_of)
        found = histories.list_slots(connection, schedule.id, slots, limit=query.limit + 1)
        truncated = len(found) > query.limit
        entries, without_results = _entries(connection, actor, query, found[-query.limit :])
        earlier = _slot_before(connection, actor, query, schedule, entries, wanted)
    # The run before has its own days.
    anywhen = structs.replace(wanted, first_on=None)
    before = [] if earlier is None else _read(connection, actor, query, [earlier], anywhen)
    return Found(
        snapshots=_read(connection, actor, query, entries, wanted),
        before=before[0] if before else None,
        truncated=truncated,
        without_results=without_results,
    )


def _read(
    connection: Connection,
    actor: Actor,
    query: HistoryQuery,
    entries: Sequence[_Entry],
    wanted: SummaryFilter,
) -> list[Snapshot]:
    batch_ids = [entry.batch.id for entry in entries]
    rows = histories.list_summaries(connection, batch_ids, wanted, limit=MOST_ROWS + 1)
    if len(rows) > MOST_ROWS:
        raise MalformedError(
            f"these runs have more than {MOST_ROWS} headline points: ask for fewer days or runs, a "
            "scenario or a profile"
        )
    return _snapshots(connection, actor, query, entries, rows, wanted)


def _batch_before(
    connection: Connection,
    actor: Actor,
    query: HistoryQuery,
    entries: Sequence[_Entry],
    wanted: SummaryFilter,
) -> _Entry | None:
    """The newest batch made before the first one; with steps of time the last before the first."""
    if not entries:
        return None
    if query.step == "run":
        first = entries[0].batch
        earlier = structs.replace(wanted, first_on=None, made_before=(first.created_at, first.id))
    else:
        begins_on = min(step_start(entry.batch.start_on, query.step) for entry in entries)
        earlier = structs.replace(wanted, first_on=None, before_on=begins_on)
    found = histories.newest_batches(
        connection, actor.team_id, earlier, limit=1, by_day=query.step != "run"
    )
    return _Entry(found[0], None) if found else None


def _slot_before(
    connection: Connection,
    actor: Actor,
    query: HistoryQuery,
    schedule: Row[Any],
    entries: Sequence[_Entry],
    wanted: SummaryFilter,
) -> _Entry | None:
    """The newest slot before the step of time of the first one that has results as wanted."""
    if not entries or entries[0].scheduled is None:
        return None
    first = entries[0].scheduled
    slots = RunSlots(
        before=first.scheduled_for,
        before_on=None if query.step == "run" else step_start(local_day(first), query.step),
        known_by=query.as_of,
        with_batch=query.as_of is None,
    )
    found = histories.list_slots(connection, schedule.id, slots, limit=SLOTS_BACK)
    earlier, _ = _entries(connection, actor, query, found)
    known = histories.with_results(connection, {entry.batch.id for entry in earlier}, wanted)
    there = [entry for entry in earlier if entry.batch.id in known]
    return there[-1] if there else None


def _entries(
    connection: Connection, actor: Actor, query: HistoryQuery, found: Sequence[Row[Any]]
) -> tuple[list[_Entry], dict[str, int]]:
    """The batch of each slot: its newest attempt, of those that had ended when it was asked for."""
    attempts = {slot.id: _attempts(slot, was=query.as_of is not None) for slot in found}
    needed = {batch_id for tried in attempts.values() for batch_id, _ in tried}
    rows = histories.list_ended_batches(connection, actor.team_id, needed, query.as_of)
    ended = {row.id: row for row in rows}
    entries, missing = [], dict[str, int]()
    for slot in found:
        tried = [one for one in attempts[slot.id] if one[0] in ended]
        if not tried:
            state = slot.state if query.as_of is None else _state_at(slot, query.as_of)
            missing[state] = missing.get(state, 0) + 1
            continue
        batch_id, attempt = tried[0]
        scheduled = ScheduledRun(
            run_id=slot.id,
            scheduled_for=slot.scheduled_for,
            local_time=slot.local_time,
            attempt=attempt,
        )
        entries.append(_Entry(ended[batch_id], scheduled))
    return entries, missing


def _attempts(slot: Row[Any], *, was: bool) -> list[tuple[UUID, int]]:
    """The batches of a slot with the numbers of their attempts, newest first.

    Only the current one, unless it is asked how things stood in the past.
    """
    earlier = [
        (UUID(tried["batch_id"]), int(tried["attempt"]))
        for tried in slot.earlier_batches
        if tried["batch_id"] is not None
    ]
    current = [] if slot.batch_id is None else [(slot.batch_id, slot.attempt)]
    return [*current, *(sorted(earlier, key=lambda tried: -tried[1]) if was else [])]


def _state_at(slot: Row[Any], moment: datetime) -> str:
    """The state of the run of a slot as it stood then."""
    if slot.ended_at is not None and slot.ended_at <= moment:
        return str(slot.state)
    if slot.started_at is not None and slot.started_at <= moment:
        return "running"
    ended = [
        tried
        for tried in slot.earlier_batches
        if tried["ended_at"] is not None and datetime.fromisoformat(tried["ended_at"]) <= moment
    ]
    return str(ended[-1]["state"]) if ended else "due"


def _snapshots(
    connection: Connection,
    actor: Actor,
    query: HistoryQuery,
    entries: Sequence[_Entry],
    rows: Sequence[Row[Any]],
    wanted: SummaryFilter,
) -> list[Snapshot]:
    batch_ids = [entry.batch.id for entry in entries]
    prices = read_run_prices(
        connection,
        actor,
        batch_ids,
        which=query.pricing or ("first" if query.as_of is None else "newest"),
        made_by=query.as_of,
        # A list of ids only where it is shorter than what it keeps away
        item_ids=None if query.scenario is None else {row.item_id for row in rows},
    )
    summaries: dict[UUID, list[Row[Any]]] = {}
    for row in rows:
        summaries.setdefault(row.batch_id, []).append(row)
    left_out = _left_out(connection, batch_ids, rows, wanted)
    absent = _absent(connection, left_out, wanted)
    return [
        _snapshot(
            entry,
            summaries.get(entry.batch.id, []),
            prices.get(entry.batch.id),
            left_out.get(entry.batch.id, {}),
            absent.get(entry.batch.id, ()),
        )
        for entry in entries
    ]


def _absent(
    connection: Connection,
    left_out: Mapping[UUID, Mapping[str | None, LeftOut]],
    wanted: SummaryFilter,
) -> dict[UUID, tuple[Absent, ...]]:
    """By batch, the items that are left out."""
    some = [
        batch_id
        for batch_id, by_profile in left_out.items()
        if any(out != LeftOut() for out in by_profile.values())
    ]
    rows = histories.list_absent(connection, some, wanted, limit=MOST_ABSENT + 1) if some else []
    if len(rows) > MOST_ABSENT:
        raise MalformedError(
            f"these runs have more than {MOST_ABSENT} items without numbers: ask for fewer days or "
            "runs, a scenario or a profile"
        )
    found: dict[UUID, list[Absent]] = {}
    for row in rows:
        known = Known(row.name, row.profile_slug, row.custom_id)
        found.setdefault(row.batch_id, []).append(Absent(known=known))
    return {batch_id: tuple(items) for batch_id, items in found.items()}


def _left_out(
    connection: Connection,
    batch_ids: Sequence[UUID],
    rows: Sequence[Row[Any]],
    wanted: SummaryFilter,
) -> dict[UUID, dict[str | None, LeftOut]]:
    """By batch and profile, the items that have no headline result."""
    told: dict[tuple[UUID, str | None], int] = {}
    for row in rows:
        key = (row.batch_id, row.profile_slug)
        told[key] = told.get(key, 0) + 1
    found: dict[UUID, dict[str | None, LeftOut]] = {}
    for row in histories.count_items(connection, batch_ids, wanted):
        found.setdefault(row.batch_id, {})[row.profile_slug] = LeftOut(
            without_headline=row.items - row.headlined,
            failed=row.headlined - told.get((row.batch_id, row.profile_slug), 0),
        )
    return found


def _snapshot(
    entry: _Entry,
    rows: Sequence[Row[Any]],
    prices: RunPrices | None,
    left_out: dict[str | None, LeftOut],
    absent: tuple[Absent, ...],
) -> Snapshot:
    batch, scheduled = entry
    currency = batch.currency if prices is None else prices.currency
    run = Snapshot(
        batch_id=batch.id,
        batch_name=batch.name,
        batch_created_at=batch.created_at,
        on=batch.start_on if scheduled is None else local_day(scheduled),
        model_version=batch.model_version,
        runs=(),
        left_out=left_out,
        absent=absent,
        scheduled=scheduled,
        currency=currency,
        pricing=None if prices is None else prices.number,
    )
    names = Counter((row.name, row.profile_slug) for row in rows)
    names.update(item.known.key for item in absent)
    shared = {key for key, count in names.items() if count > 1}
    return structs.replace(run, runs=tuple(_run(run, row, prices, shared) for row in rows))


def _run(
    snapshot: Snapshot,
    row: Row[Any],
    prices: RunPrices | None,
    shared: Collection[tuple[str, str | None]],
) -> Run:
    return Run(
        scenario=row.name,
        batch_id=row.batch_id,
        batch_name=snapshot.batch_name,
        batch_created_at=snapshot.batch_created_at,
        point=row.point,
        profile=row.profile_slug,
        profile_revision=row.profile_revision,
        custom_id=row.custom_id,
        shares_name=(row.name, row.profile_slug) in shared,
        start_on=row.start_on,
        period_days=row.period_days,
        num_gpus=row.num_gpus,
        ideal_step_ms=row.ideal_step_ms,
        step_mean_ms=row.step_mean_ms,
        efficiency_fraction=row.efficiency_fraction,
        gpu_hours_available=row.gpu_hours_available,
        gpu_hours_lost=row.gpu_hours_lost,
        gpu_hours_not_useful=row.gpu_hours_not_useful,
        gpu_hours_lost_p10=row.gpu_hours_lost_p10,
        gpu_hours_lost_p50=row.gpu_hours_lost_p50,
        gpu_hours_lost_p90=row.gpu_hours_lost_p90,
        gpu_hours_lost_se=row.gpu_hours_lost_se,
        seed=int(row.seed),
        model_version=row.model_version,
        currency=snapshot.currency,
        window=None if prices is None else prices.windows.get(row.item_id),
        pricing=snapshot.pricing,
        scheduled=snapshot.scheduled,
    )
