"""Stored results as they are answered."""

from datetime import date, datetime
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta, Struct

from service.jobs.batch_documents import ScenarioObject
from service.jobs.output_columns import ResultColumns
from service.reports.money import CostStatus, Money


class RateDays(Struct, frozen=True, kw_only=True):
    """A rate and how many days of the window it prices."""

    id: UUID
    days: int


class ResultOut(Struct, frozen=True, kw_only=True):
    """One point: what was put in, what came out, and what the loss costs.

    Without the scope costs:read the cost is withheld: `cost_of_loss`, `money_given_back` and
    `unpriced_days` are null, `cost_status` is `withheld`, and no rates are named.
    """

    id: str
    batch_id: UUID
    batch_name: str
    custom_id: str
    name: str
    point: int
    profile: str | None
    start_on: date
    model_version: str
    seed: int
    num_gpus: Annotated[int, Meta(description="Of the point, whether it is an axis or not.")]
    inputs: Annotated[dict[str, Any], Meta(description="The value of the point on every axis.")]
    result: ResultColumns
    cost_of_loss: Money | None
    money_given_back: Annotated[
        Money | None,
        Meta(description="What gpu_hours_given_back cost; null where the point tries no remedy."),
    ]
    cost_status: CostStatus
    unpriced_days: Annotated[
        int | None, Meta(description="Days of the window without a rate; null where withheld.")
    ]
    rates: list[RateDays]


class ResultPage(Struct, frozen=True, kw_only=True):
    """A page of results."""

    items: list[ResultOut]
    next_page_token: str | None


class Provenance(Struct, frozen=True, kw_only=True):
    """Everything that is needed to compute the same result again."""

    scenario: ScenarioObject
    seed: int
    model_version: str
    item_input_digest: str
    profile_revision_id: UUID | None
    gpu_type: str | None
    cost_center: str | None
    currency: str | None
    rates_as_of: Annotated[
        datetime | None, Meta(description="When the rates were read; null where withheld.")
    ]
    pricing: Annotated[
        int, Meta(description="Which pricing is shown; 0: there is none, or it is withheld.")
    ]
    reproduce: dict[str, Any]


class ResultDetail(Struct, frozen=True, kw_only=True):
    """One result with its provenance; `reproduce` is a body for `POST /v1/evaluations`."""

    result: ResultOut
    provenance: Provenance
