"""The loss of one named scenario over its batches, as finance and operations look at it together.

Windows may overlap and may differ in length, so they are never added: every run is given a day
and 30 days of its own, and is compared with the run before on those (design page "Decisions",
16).
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Annotated, Literal
from uuid import UUID

import numpy as np
from msgspec import Meta, Struct

from service.reports.changes import Change, change, nullable
from service.reports.cost_changes import CostChange, CostPair, cost_change, withheld_change
from service.reports.ideals import (
    AVAILABLE,
    IDEAL,
    LOST,
    NOT_USEFUL,
    Floats,
    LostSplit,
    ideal_changed,
    lost_split,
    lost_splits,
)
from service.reports.loss_report import RateChange, VolumeCause
from service.reports.money import CostStatus, Money
from service.reports.pairing import Known
from service.reports.price_causes import RateKey, rate_changes
from service.reports.pricing import Cost, PricedWindow, priced
from service.reports.sampling import Sampling, SamplingField, difference_errors, samplings

MONTH_DAYS = 30


CausesStatus = Annotated[
    Literal["told", "not_told"],
    Meta(
        description="`told`: a report has compared these two runs, and `volume` says why the "
        "GPU-hours moved; `not_told`: none has, and a history evaluates nothing."
    ),
]
Told = Mapping[tuple[UUID, int, UUID, int], Sequence[VolumeCause]]
"""Causes by batch and point of the new side, and of the past."""
NO_CAUSES: Told = {}
NO_KEYS: Mapping[str, RateKey] = {}


class ScheduledRun(Struct, frozen=True, kw_only=True):
    """The run of a schedule that a batch belongs to."""

    run_id: UUID
    scheduled_for: datetime
    local_time: Annotated[str, Meta(description="The slot in the schedule's zone.")]
    attempt: int


class Run(Struct, frozen=True, kw_only=True):
    """The headline point of the scenario in one batch: what a history is made from.

    `shares_name`: another item of the batch has the same name and profile.
    """

    scenario: str
    batch_id: UUID
    batch_name: str
    batch_created_at: datetime
    point: int
    profile: str | None
    profile_revision: int | None
    custom_id: str
    start_on: date
    period_days: int
    num_gpus: int
    ideal_step_ms: float
    step_mean_ms: float
    efficiency_fraction: float
    gpu_hours_available: float
    gpu_hours_lost: float
    gpu_hours_not_useful: float
    model_version: str
    gpu_hours_lost_p10: float | None = None
    gpu_hours_lost_p50: float | None = None
    gpu_hours_lost_p90: float | None = None
    gpu_hours_lost_se: float | None = None
    seed: int | None = None
    currency: str | None = None
    window: PricedWindow | None = None
    pricing: int | None = None
    scheduled: ScheduledRun | None = None
    shares_name: bool = False

    @property
    def known(self) -> Known:
        """What it is paired by."""
        return Known(self.scenario, self.profile, self.custom_id)

    @property
    def series(self) -> tuple[str, str | None, str | None]:
        """Which row of how many: name, profile, and the custom id where these are not enough."""
        return (self.scenario, self.profile, self.custom_id if self.shares_name else None)


class HistoryChange(Struct, frozen=True, kw_only=True):
    """Against the run before of the same profile, on 30 days; says what else is not the same."""

    previous_result_id: str
    gpu_hours_lost_per_30_days: Change
    standard_error_per_30_days: Annotated[
        float | None,
        Meta(
            description="Of that difference by sampling; 0 where it is exact, null where a model "
            "did not tell."
        ),
    ]
    sampling: SamplingField
    cost_of_loss_per_30_days: CostChange
    ideal_changed: bool
    lost_split: LostSplit | None
    profile_revision_changed: bool
    model_version_changed: bool
    window_overlaps: Annotated[
        bool, Meta(description="Both runs look at some of the same days: never add them.")
    ]
    causes_status: CausesStatus
    volume: Annotated[
        list[VolumeCause] | None,
        Meta(description="Why the GPU-hours moved; they sum to the difference."),
    ]
    rates: Annotated[
        list[RateChange], Meta(description="Which rates price both runs, and what each moved.")
    ]


class HistoryRow(Struct, frozen=True, kw_only=True):
    """One run; `change` is null where there is none before: it may lie before the days shown."""

    scenario: str
    custom_id: Annotated[str, Meta(description="Of the item: several may have one name.")]
    run: Annotated[ScheduledRun | None, Meta(description="Of a schedule, where it was one's.")]
    result_id: str
    batch_id: UUID
    batch_name: str
    batch_created_at: datetime
    profile: str | None
    profile_revision: int | None
    start_on: date
    end_on: Annotated[date, Meta(description="The day after the window's last.")]
    period_days: int
    num_gpus: int
    ideal_step_ms: float
    step_mean_ms: float
    efficiency_fraction: float
    gpu_hours_lost: Annotated[float, Meta(description="Of the run's own window.")]
    gpu_hours_lost_p10: Annotated[
        float | None,
        Meta(description="One cluster in ten loses less over the run's own window."),
    ]
    gpu_hours_lost_p50: float | None
    gpu_hours_lost_p90: float | None
    gpu_hours_lost_se: Annotated[
        float | None, Meta(description="Standard error of gpu_hours_lost; 0 where it is exact.")
    ]
    gpu_hours_lost_per_day: float
    gpu_hours_lost_per_30_days: float
    gpu_hours_not_useful_per_30_days: float
    cost_of_loss_per_day: Money | None
    cost_of_loss_per_30_days: Money | None
    cost_status: CostStatus
    pricing: Annotated[
        int | None, Meta(description="Number of the pricing shown; null without one.")
    ]
    model_version: str
    change: HistoryChange | None


def previous_runs(runs: Sequence[Run]) -> list[Run | None]:
    """Of each run, in the order given (oldest first), the one that it is compared with.

    It is the newest earlier one of the same item in another batch: a batch does not follow itself.
    Items are paired as reports pair them, by name and profile, and by custom id where several of
    either batch share both.
    """
    newest: dict[tuple[str, str | None] | Known, tuple[int, Run]] = {}
    found: list[Run | None] = []
    for place, (_, batch) in enumerate(groupby(runs, key=lambda run: run.batch_id)):
        together = list(batch)
        for run in together:
            earlier = [newest.get(run.known)]
            if not run.shares_name:
                earlier.append(newest.get(run.known.key))
            there = [one for one in earlier if one is not None]
            found.append(max(there, key=lambda one: one[0])[1] if there else None)
        for run in together:
            newest[run.known] = (place, run)
            if not run.shares_name:
                newest[run.known.key] = (place, run)
    return found


def loss_history(
    runs: Sequence[Run],
    previous: Sequence[Run | None] | None = None,
    *,
    withhold: bool = False,
    told: Told = NO_CAUSES,
    keys: Mapping[str, RateKey] = NO_KEYS,
) -> list[HistoryRow]:
    """The runs, in the order given (oldest first), each with its change against the one before.

    `previous` are those before, where the runs are a part of a longer history. `withhold` hides
    all money; `told` are the causes that reports have found, `keys` what the rates price.
    """
    known = previous_runs(runs) if previous is None else previous
    return [
        _row(
            run,
            None if before is None else _change(before, run, told, keys, withhold=withhold),
            withhold=withhold,
        )
        for run, before in zip(runs, known, strict=True)
    ]


def _row(run: Run, changed: HistoryChange | None, *, withhold: bool) -> HistoryRow:
    a_day = _cost(per_days(run, run.gpu_hours_lost, 1), run, withhold=withhold)
    a_month = _cost(per_days(run, run.gpu_hours_lost, MONTH_DAYS), run, withhold=withhold)
    return HistoryRow(
        scenario=run.scenario,
        custom_id=run.custom_id,
        run=run.scheduled,
        result_id=_result_id(run),
        batch_id=run.batch_id,
        batch_name=run.batch_name,
        batch_created_at=run.batch_created_at,
        profile=run.profile,
        profile_revision=run.profile_revision,
        start_on=run.start_on,
        end_on=_end_on(run),
        period_days=run.period_days,
        num_gpus=run.num_gpus,
        ideal_step_ms=run.ideal_step_ms,
        step_mean_ms=run.step_mean_ms,
        efficiency_fraction=run.efficiency_fraction,
        gpu_hours_lost=run.gpu_hours_lost,
        gpu_hours_lost_p10=run.gpu_hours_lost_p10,
        gpu_hours_lost_p50=run.gpu_hours_lost_p50,
        gpu_hours_lost_p90=run.gpu_hours_lost_p90,
        gpu_hours_lost_se=run.gpu_hours_lost_se,
        gpu_hours_lost_per_day=per_days(run, run.gpu_hours_lost, 1),
        gpu_hours_lost_per_30_days=per_days(run, run.gpu_hours_lost, MONTH_DAYS),
        gpu_hours_not_useful_per_30_days=per_days(run, run.gpu_hours_not_useful, MONTH_DAYS),
        cost_of_loss_per_day=a_day.cost,
        cost_of_loss_per_30_days=a_month.cost,
        cost_status=a_month.cost_status,
        pricing=None if withhold else run.pricing,
        model_version=run.model_version,
        change=changed,
    )


def cost_pair(past: Run, new: Run) -> CostPair:
    """Both runs' losses on 30 days, with what prices them."""
    return CostPair(
        past_hours=per_days(past, past.gpu_hours_lost, MONTH_DAYS),
        new_hours=per_days(new, new.gpu_hours_lost, MONTH_DAYS),
        past_window=past.window,
        new_window=new.window,
    )


def causes_between(past: Run, new: Run, told: Told) -> Sequence[VolumeCause] | None:
    """Why the GPU-hours moved, None where no report has told."""
    return told.get((new.batch_id, new.point, past.batch_id, past.point))


def _change(
    past: Run, new: Run, told: Told, keys: Mapping[str, RateKey], *, withhold: bool
) -> HistoryChange:
    pair = cost_pair(past, new)
    before, after = columns_of([past]), columns_of([new])
    moved = bool(ideal_changed(before[IDEAL], after[IDEAL])[0])
    hours = change(pair.past_hours, pair.new_hours)
    error, sampling = _error(past, new, hours)
    cost = withheld_change() if withhold else cost_change([pair], past.currency, new.currency)
    causes = causes_between(past, new, told)
    return HistoryChange(
        previous_result_id=_result_id(past),
        gpu_hours_lost_per_30_days=hours,
        standard_error_per_30_days=error,
        sampling=sampling,
        cost_of_loss_per_30_days=cost,
        ideal_changed=moved,
        lost_split=lost_split(lost_splits(before, after)) if moved else None,
        profile_revision_changed=past.profile_revision != new.profile_revision,
        model_version_changed=past.model_version != new.model_version,
        window_overlaps=past.start_on < _end_on(new) and new.start_on < _end_on(past),
        causes_status="not_told" if causes is None else "told",
        volume=None if causes is None else list(causes),
        rates=rate_changes([pair], (past.currency, new.currency), cost, keys),
    )


def _error(past: Run, new: Run, hours: Change) -> tuple[float | None, Sampling]:
    """Standard error of the difference on 30 days, and how both sides were sampled."""
    errors = [
        np.array([math.nan if error is None else per_days(run, error, MONTH_DAYS)])
        for run, error in ((past, past.gpu_hours_lost_se), (new, new.gpu_hours_lost_se))
    ]
    same = np.array([past.seed is not None and past.seed == new.seed])
    difference = np.array([math.nan if hours.difference is None else hours.difference])
    (found,) = difference_errors(errors[0], errors[1], difference, same).tolist()
    (sampling,) = samplings(errors[0][np.newaxis], errors[1][np.newaxis], same)
    return nullable(found), sampling


def _cost(gpu_hours: float, run: Run, *, withhold: bool) -> Cost:
    if withhold:
        return Cost(cost=None, cost_status=CostStatus.WITHHELD)
    return priced(gpu_hours, run.window, run.currency)


def columns_of(runs: Sequence[Run]) -> dict[str, Floats]:
    """(runs,) each what the split of a loss is made from, on 30 days."""
    return {
        LOST: np.array([per_days(run, run.gpu_hours_lost, MONTH_DAYS) for run in runs]),
        AVAILABLE: np.array([per_days(run, run.gpu_hours_available, MONTH_DAYS) for run in runs]),
        NOT_USEFUL: np.array([per_days(run, run.gpu_hours_not_useful, MONTH_DAYS) for run in runs]),
        IDEAL: np.array([run.ideal_step_ms for run in runs]),
    }


def per_days(run: Run, gpu_hours: float, days: int) -> float:
    """The window's GPU-hours on so many days; unchanged, to the last bit, where it has as many."""
    return gpu_hours * (days / run.period_days)


def _end_on(run: Run) -> date:
    return run.start_on + timedelta(days=run.period_days)


def _result_id(run: Run) -> str:
    return f"{run.batch_id}.{run.point}"
