"""What an evaluated scenario's loss, and the extra work of its job, cost."""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from service.jobs.evaluation_prices import EvaluationRateDays, EvaluationRates
from service.model.fields import Scenario
from service.model.results import PIPELINE_CAUSES
from service.reports.money import CostStatus, Money


class EvaluationCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Money of both views, each priced day by day with the rates valid then.

    Without the scope costs:read it is withheld: amounts and days are null, and no rates are named.
    What a typed price makes of the loss is withheld from nobody.
    """

    currency: str | None
    start_on: date
    cost_of_loss: Annotated[
        Money | None, Meta(description="Fixed window: of gpu_hours_lost over period_days.")
    ]
    cost_status: CostStatus
    cost_of_pipeline: Annotated[
        Money | None,
        Meta(
            description="Of it, what the pipeline loses: gpu_hours_pipeline_bubble, _imbalance and "
            "_p2p; null without a pipeline."
        ),
    ]
    unpriced_days: Annotated[
        int | None, Meta(description="Days of the window without a rate; null where withheld.")
    ]
    rates: list[EvaluationRateDays]
    cost_of_extra_work: Annotated[
        Money | None,
        Meta(
            description="Fixed work: of gpu_hours_extra_for_total_steps over days_to_finish; null "
            "without total_steps."
        ),
    ]
    cost_of_extra_work_status: Annotated[
        CostStatus | None, Meta(description="Null without total_steps.")
    ]
    unpriced_days_of_job: Annotated[
        int | None,
        Meta(description="Days of the job without a rate; null where withheld, or no total_steps."),
    ]


def costs_of(
    columns: Mapping[str, NDArray[Any]], scenario: Scenario, rates: EvaluationRates
) -> EvaluationCosts:
    """The money of one point."""
    lost = rates.cost(float(columns["gpu_hours_lost"][0]), scenario.period_days)
    days = float(columns["days_to_finish"][0])
    extra = unpriced = None
    if np.isfinite(days):
        extra_hours = float(columns["gpu_hours_extra_for_total_steps"][0])
        extra = rates.cost_over(extra_hours, days)
        unpriced = rates.unpriced_days(int(np.ceil(days)))
    pipeline = None
    if scenario.pipeline is not None:
        hours = sum(float(columns[name][0]) for name in PIPELINE_CAUSES)
        pipeline = rates.cost(hours, scenario.period_days).cost
    return EvaluationCosts(
        currency=rates.currency,
        start_on=rates.start_on,
        cost_of_loss=lost.cost,
        cost_status=lost.cost_status,
        cost_of_pipeline=pipeline,
        unpriced_days=rates.unpriced_days(scenario.period_days),
        rates=rates.rate_days(scenario.period_days),
        cost_of_extra_work=None if extra is None else extra.cost,
        cost_of_extra_work_status=None if extra is None else extra.cost_status,
        unpriced_days_of_job=unpriced,
    )
