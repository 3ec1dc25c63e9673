"""The loss of one named scenario over its batches, as finance and operations look at it together.

Windows may overlap and may differ in length, so they are never added: every run is given a day
and 30 days of its own, and is compared with the run before on those (design page "Decisions",
16).
"""

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Annotated
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
from service.reports.money import CostStatus, Money
from service.reports.pricing import Cost, PricedWindow, priced
from service.reports.sampling import Sampling, SamplingField, difference_errors, samplings

MONTH_DAYS = 30


class Run(Struct, frozen=True, kw_only=True):
    """The headline point of the scenario in one batch: what a history is made from."""

    batch_id: UUID
    batch_name: str
    batch_created_at: datetime
    point: int
    profile: str | None
    profile_revision: int | None
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


class HistoryRow(Struct, frozen=True, kw_only=True):
    """One run; `change` is null for the first of a profile."""

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
    model_version: str
    change: HistoryChange | None


def loss_history(runs: Sequence[Run], *, withhold: bool = False) -> list[HistoryRow]:
    """The runs, in the order given (oldest first), each with its change against the one before.

    The run before is the newest earlier one of the same profile in another batch: a batch does not
    follow itself. `withhold` hides all money.
    """
    return [
        _row(run, _previous(run, runs[:place]), withhold=withhold) for place, run in enumerate(runs)
    ]


def _previous(run: Run, earlier: Sequence[Run]) -> Run | None:
    return next(
        (
            other
            for other in reversed(earlier)
            if other.profile == run.profile and other.batch_id != run.batch_id
        ),
        None,
    )


def _row(run: Run, previous: Run | None, *, withhold: bool) -> HistoryRow:
    a_day = _cost(_per_days(run, run.gpu_hours_lost, 1), run, withhold=withhold)
    a_month = _cost(_per_days(run, run.gpu_hours_lost, MONTH_DAYS), run, withhold=withhold)
    return HistoryRow(
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
        gpu_hours_lost_per_day=_per_days(run, run.gpu_hours_lost, 1),
        gpu_hours_lost_per_30_days=_per_days(run, run.gpu_hours_lost, MONTH_DAYS),
        gpu_hours_not_useful_per_30_days=_per_days(run, run.gpu_hours_not_useful, MONTH_DAYS),
        cost_of_loss_per_day=a_day.cost,
        cost_of_loss_per_30_days=a_month.cost,
        cost_status=a_month.cost_status,
        model_version=run.model_version,
        change=None if previous is None else _change(previous, run, withhold=withhold),
    )


def _change(past: Run, new: Run, *, withhold: bool) -> HistoryChange:
    past_hours = _per_days(past, past.gpu_hours_lost, MONTH_DAYS)
    new_hours = _per_days(new, new.gpu_hours_lost, MONTH_DAYS)
    moved = bool(ideal_changed(_columns(past)[IDEAL], _columns(new)[IDEAL])[0])
    hours = change(past_hours, new_hours)
    error, sampling = _error(past, new, hours)
    pair = CostPair(
        past_hours=past_hours,
        new_hours=new_hours,
        past_window=past.window,
        new_window=new.window,
    )
    return HistoryChange(
        previous_result_id=_result_id(past),
        gpu_hours_lost_per_30_days=hours,
        standard_error_per_30_days=error,
        sampling=sampling,
        cost_of_loss_per_30_days=withheld_change()
        if withhold
        else cost_change([pair], past.currency, new.currency),
        ideal_changed=moved,
        lost_split=lost_split(lost_splits(_columns(past), _columns(new))) if moved else None,
        profile_revision_changed=past.profile_revision != new.profile_revision,
        model_version_changed=past.model_version != new.model_version,
        window_overlaps=past.start_on < _end_on(new) and new.start_on < _end_on(past),
    )


def _error(past: Run, new: Run, hours: Change) -> tuple[float | None, Sampling]:
    """Standard error of the difference on 30 days, and how both sides were sampled."""
    errors = [
        np.array([math.nan if error is None else _per_days(run, error, MONTH_DAYS)])
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


def _columns(run: Run) -> dict[str, Floats]:
    """One row of 30 days."""
    return {
        LOST: np.array([_per_days(run, run.gpu_hours_lost, MONTH_DAYS)]),
        AVAILABLE: np.array([_per_days(run, run.gpu_hours_available, MONTH_DAYS)]),
        NOT_USEFUL: np.array([_per_days(run, run.gpu_hours_not_useful, MONTH_DAYS)]),
        IDEAL: np.array([run.ideal_step_ms]),
    }


def _per_days(run: Run, gpu_hours: float, days: int) -> float:
    """The window's GPU-hours on so many days; unchanged, to the last bit, where it has as many."""
    return gpu_hours * (days / run.period_days)


def _end_on(run: Run) -> date:
    return run.start_on + timedelta(days=run.period_days)


def _result_id(run: Run) -> str:
    return f"{run.batch_id}.{run.point}"
