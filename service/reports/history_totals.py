"""Totals of headline points over the items of each run: of a profile, or of the whole team.

Runs are never added, only the items of one run, each on a day and on 30 days of its own (design
page "Decisions", 9 and 16). What has no headline point or failed is counted beside the total.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import chain
from typing import Annotated, Literal, NamedTuple
from uuid import UUID

import numpy as np
from msgspec import Meta, Struct

from service.reports.changes import Change, change_of_sums
from service.reports.cost_changes import CostChange, cost_change, withheld_change
from service.reports.history import (
    MONTH_DAYS,
    NO_CAUSES,
    NO_KEYS,
    CausesStatus,
    Run,
    ScheduledRun,
    Told,
    causes_between,
    columns_of,
    cost_pair,
    per_days,
)
from service.reports.ideals import LostSplit, ideal_changed, lost_split, lost_splits
from service.reports.loss_report import RateChange, VolumeCause
from service.reports.money import CostStatus, Money, money
from service.reports.pairing import Known, PairedUp, paired_up
from service.reports.price_causes import RateKey, rate_changes
from service.reports.pricing import Cost, cost_status, summed_cost
from service.reports.volume import summed

GroupBy = Literal["profile", "team"]
TEAM = None


class LeftOut(Struct, frozen=True, kw_only=True):
    """Items of a batch that have no numbers, by reason."""

    without_headline: int = 0
    failed: int = 0


class Absent(Struct, frozen=True, kw_only=True):
    """An item of a batch that has no numbers: no headline point, or one that failed."""

    known: Known


class Snapshot(Struct, frozen=True, kw_only=True):
    """One batch: its headline points, and by profile what has none. `on` is the day it is for.

    `absent` are the items that are counted in `left_out`.
    """

    batch_id: UUID
    batch_name: str
    batch_created_at: datetime
    on: date
    model_version: str
    runs: tuple[Run, ...]
    left_out: Mapping[str | None, LeftOut]
    absent: tuple[Absent, ...] = ()
    scheduled: ScheduledRun | None = None
    currency: str | None = None
    pricing: int | None = None


class TotalChange(Struct, frozen=True, kw_only=True):
    """Against the run before that has the group, over items with numbers in both, on 30 days.

    Of batches that no schedule made, the run before is the newest one with an item in common.

    `items_failed` have numbers in the run before only, though the item is still there;
    `items_returned` in this one only.
    """

    previous_batch_id: UUID
    items_compared: int
    items_appeared: int
    items_gone: int
    items_failed: int
    items_returned: int
    gpu_hours_lost_per_30_days: Change
    cost_of_loss_per_30_days: CostChange
    ideal_changed: Annotated[bool, Meta(description="Of any item.")]
    lost_split: Annotated[
        LostSplit | None, Meta(description="Sums over the items; null where no ideal changed.")
    ]
    model_version_changed: bool
    causes_status: CausesStatus
    volume: Annotated[
        list[VolumeCause] | None,
        Meta(description="Why the GPU-hours moved; they sum to the difference."),
    ]
    rates: list[RateChange]


class HistoryTotal(Struct, frozen=True, kw_only=True):
    """One run of a group; sums hold its headline points only."""

    profile: Annotated[
        str | None, Meta(description="Null for inline scenarios, and for the whole team.")
    ]
    run: ScheduledRun | None
    batch_id: UUID
    batch_name: str
    batch_created_at: datetime
    on: Annotated[date, Meta(description="Day of the slot, or first day of the batch's windows.")]
    items: int
    items_without_headline: int
    items_failed: int
    gpu_hours_available_per_30_days: float
    gpu_hours_lost_per_day: float
    gpu_hours_lost_per_30_days: float
    gpu_hours_not_useful_per_30_days: float
    loss_fraction: Annotated[float | None, Meta(description="Of the GPU-hours available.")]
    cost_of_loss_per_day: Money | None
    cost_of_loss_per_30_days: Money | None
    cost_status: CostStatus
    pricing: Annotated[
        int | None, Meta(description="Number of the pricing shown; null without one.")
    ]
    model_version: str
    change: TotalChange | None


class GroupRun(NamedTuple):
    """The part of a snapshot that a group has."""

    snapshot: Snapshot
    group: str | None
    runs: tuple[Run, ...]
    left_out: LeftOut
    absent: tuple[Absent, ...]


def group_runs(snapshots: Iterable[Snapshot], by: GroupBy) -> list[GroupRun]:
    """The groups of every snapshot, in the order of the snapshots and then by name."""
    return list(chain.from_iterable(_groups(snapshot, by) for snapshot in snapshots))


def _groups(snapshot: Snapshot, by: GroupBy) -> list[GroupRun]:
    if by == "team":
        everything = LeftOut(
            without_headline=sum(out.without_headline for out in snapshot.left_out.values()),
            failed=sum(out.failed for out in snapshot.left_out.values()),
        )
        return [GroupRun(snapshot, TEAM, snapshot.runs, everything, snapshot.absent)]
    profiles = {run.profile for run in snapshot.runs} | set(snapshot.left_out)
    return [
        GroupRun(
            snapshot,
            profile,
            tuple(run for run in snapshot.runs if run.profile == profile),
            snapshot.left_out.get(profile, LeftOut()),
            tuple(item for item in snapshot.absent if item.known.profile == profile),
        )
        for profile in sorted(profiles, key=lambda slug: (slug is None, slug or ""))
    ]


def previous_groups(groups: Sequence[GroupRun]) -> list[GroupRun | None]:
    """Of each, in the order given, the newest earlier one of the same group with numbers.

    Outside a schedule batches of very different kinds follow each other: there it is the newest
    with an item in common, where there is one.
    """
    newest: dict[str | None, GroupRun] = {}
    newest_with: dict[tuple[str | None, tuple[str, str | None]], tuple[int, GroupRun]] = {}
    found = []
    for place, group in enumerate(groups):
        keys = [(group.group, run.known.key) for run in group.runs]
        akin = (
            []
            if group.snapshot.scheduled
            else [newest_with[key] for key in keys if key in newest_with]
        )
        found.append(max(akin, key=lambda one: one[0])[1] if akin else newest.get(group.group))
        if group.runs:
            newest[group.group] = group
        newest_with.update(dict.fromkeys(keys, (place, group)))
    return found


def history_totals(
    groups: Sequence[GroupRun],
    previous: Sequence[GroupRun | None],
    *,
    withhold: bool = False,
    told: Told = NO_CAUSES,
    keys: Mapping[str, RateKey] = NO_KEYS,
) -> list[HistoryTotal]:
    """The groups in the order given, each with its change against the one before."""
    return [
        _total(
            group,
            None
            if before is None or not group.runs
            else _change(before, group, told, keys, withhold=withhold),
            withhold=withhold,
        )
        for group, before in zip(groups, previous, strict=True)
    ]


def _total(group: GroupRun, changed: TotalChange | None, *, withhold: bool) -> HistoryTotal:
    snapshot, _, runs, left_out, _ = group
    available = _sum(runs, [run.gpu_hours_available for run in runs], MONTH_DAYS)
    lost = _sum(runs, [run.gpu_hours_lost for run in runs], MONTH_DAYS)
    a_day, a_month = (_cost(group, days, withhold=withhold) for days in (1, MONTH_DAYS))
    return HistoryTotal(
        profile=group.group,
        run=snapshot.scheduled,
        batch_id=snapshot.batch_id,
        batch_name=snapshot.batch_name,
        batch_created_at=snapshot.batch_created_at,
        on=snapshot.on,
        items=len(runs),
        items_without_headline=left_out.without_headline,
        items_failed=left_out.failed,
        gpu_hours_available_per_30_days=available,
        gpu_hours_lost_per_day=_sum(runs, [run.gpu_hours_lost for run in runs], 1),
        gpu_hours_lost_per_30_days=lost,
        gpu_hours_not_useful_per_30_days=_sum(
            runs, [run.gpu_hours_not_useful for run in runs], MONTH_DAYS
        ),
        loss_fraction=lost / available if available else None,
        cost_of_loss_per_day=a_day.cost,
        cost_of_loss_per_30_days=a_month.cost,
        cost_status=a_month.cost_status,
        pricing=None if withhold else snapshot.pricing,
        model_version=snapshot.model_version,
        change=changed,
    )


def _sum(runs: Sequence[Run], hours: Sequence[float], days: int) -> float:
    return math.fsum(per_days(run, part, days) for run, part in zip(runs, hours, strict=True))


def _cost(group: GroupRun, days: int, *, withhold: bool) -> Cost:
    """Of all its items, rounded once; null unless each has a price."""
    if withhold:
        return Cost(cost=None, cost_status=CostStatus.WITHHELD)
    currency = group.snapshot.currency
    found = {cost_status(run.window) for run in group.runs}
    if currency is None or found <= {CostStatus.NO_RATE}:
        return Cost(cost=None, cost_status=CostStatus.NO_RATE)
    exact = summed_cost((per_days(run, run.gpu_hours_lost, days), run.window) for run in group.runs)
    if exact is None:
        return Cost(cost=None, cost_status=CostStatus.PARTLY_PRICED)
    return Cost(cost=money(exact, currency), cost_status=CostStatus.PRICED)


def _change(
    past: GroupRun, new: GroupRun, told: Told, keys: Mapping[str, RateKey], *, withhold: bool
) -> TotalChange:
    found = _paired(past, new)
    both = _both_runs(found)
    pairs = [cost_pair(one, other) for one, other in both]
    currencies = past.snapshot.currency, new.snapshot.currency
    money_change = withheld_change() if withhold else cost_change(pairs, *currencies)
    hours = change_of_sums((pair.past_hours for pair in pairs), (pair.new_hours for pair in pairs))
    causes = [causes_between(one, other, told) for one, other in both]
    known = [cause for cause in causes if cause is not None]
    is_told = len(known) == len(causes)
    sides = [run for run, _ in both], [run for _, run in both]
    ideals = [np.array([run.ideal_step_ms for run in side]) for side in sides]
    moved = bool(ideal_changed(*ideals).any())
    return TotalChange(
        previous_batch_id=past.snapshot.batch_id,
        items_compared=len(both),
        items_appeared=_num_runs(found.only_new),
        items_gone=_num_runs(found.only_past),
        items_failed=_num_runs(one for one, _ in found.pairs) - len(both),
        items_returned=_num_runs(other for _, other in found.pairs) - len(both),
        gpu_hours_lost_per_30_days=hours,
        cost_of_loss_per_30_days=money_change,
        ideal_changed=moved,
        lost_split=lost_split(lost_splits(*map(columns_of, sides))) if moved else None,
        model_version_changed=past.snapshot.model_version != new.snapshot.model_version,
        causes_status="told" if is_told else "not_told",
        volume=summed(known, hours.difference or 0.0) if is_told else None,
        rates=rate_changes(pairs, currencies, money_change, keys),
    )


def runs_in_both(past: GroupRun, new: GroupRun) -> list[tuple[Run, Run]]:
    """The runs that are compared: of one item, with numbers in both."""
    return _both_runs(_paired(past, new))


def _paired(past: GroupRun, new: GroupRun) -> PairedUp[Run | Absent]:
    return paired_up((*past.runs, *past.absent), (*new.runs, *new.absent), lambda one: one.known)


def _both_runs(found: PairedUp[Run | Absent]) -> list[tuple[Run, Run]]:
    return [
        (one, other)
        for one, other in found.pairs
        if isinstance(one, Run) and isinstance(other, Run)
    ]


def _num_runs(items: Iterable[Run | Absent]) -> int:
    return sum(isinstance(item, Run) for item in items)
