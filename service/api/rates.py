"""`/v1/gpu-hour-rates`: dated internal prices of a GPU-hour."""

from datetime import date
from typing import Annotated, Any
from uuid import UUID

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.answers import json_answer
from service.api.bodies import read_body, read_text
from service.api.concurrency import etag_of, expected_version, not_modified
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.idempotency import Created, create_once
from service.api.list_queries import Moment, PageQuery, in_utc, refuse_malformed_labels
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.transactions import actor_of, read, write
from service.db.engine import Connection
from service.db.rates import RateFilter, RateKey
from service.jobs import rates
from service.jobs.batch_documents import Currency
from service.jobs.cost_access import require_costs
from service.jobs.labels import CostCenter, GpuType
from service.jobs.rate_approvals import approve_rate as approve
from service.jobs.rate_corrections import correct_rate as correct
from service.jobs.rate_documents import (
    CorrectionIn,
    ImportOut,
    RateIn,
    RateOut,
    RatePage,
    ResolutionOut,
)
from service.jobs.rate_resolution import resolve_rate as resolve

TAG = "GPU-hour rates"
PATH = "/v1/gpu-hour-rates"
CSV = "text/csv"

Day = Annotated[date, Meta(examples=["2026-12-01"])]

# 1.00 is an example amount: no price ships with the product.
RATE_EXAMPLE: dict[str, Any] = {
    "gpu_type": "H100-SXM",
    "cost_center": "research",
    "price_per_gpu_hour": {"amount": "1.00", "currency": "EUR"},
    "valid_from": "2026-10-01",
    "valid_until": "2027-10-01",
    "source": "example amount",
}
CORRECTION_EXAMPLE: dict[str, Any] = {
    "valid_until": "2027-01-01",
    "reason": "the contract ends with the year (example)",
}
CSV_EXAMPLE = (
    "gpu_type,cost_center,currency,price_per_gpu_hour,valid_from,valid_until,source\n"
    "B200-SXM,,EUR,1.00,2026-01-01,2027-01-01,example amount\n"
    "B200-SXM,research,EUR,1.00,2026-07-01,,example amount\n"
)


class RatePath(Struct, frozen=True, kw_only=True):
    """The rate in the path."""

    rate_id: Annotated[UUID, Meta(description="Id of the rate.")]


class RateListQuery(PageQuery, frozen=True, kw_only=True):
    """Filters of the list of rates."""

    gpu_type: Annotated[GpuType, Meta(description="Only rates of this type.")] | None = None
    currency: Currency | None = None
    cost_center: Annotated[CostCenter, Meta(description="Only rates of it.")] | None = None
    on: Annotated[Day, Meta(description="Only rates valid on this day.")] | None = None
    approved: (
        Annotated[bool, Meta(description="Only rates that are, or are not, approved.")] | None
    ) = None
    include_superseded: Annotated[bool, Meta(description="Corrected rates too.")] = False


class ResolutionQuery(Struct, frozen=True, kw_only=True):
    """What is to be priced."""

    gpu_type: GpuType
    currency: Currency
    cost_center: CostCenter | None = None
    on: Annotated[Day, Meta(description="The day to be priced.")]
    as_of: (
        Annotated[Moment, Meta(description="As it was known then; default: as it is known now.")]
        | None
    ) = None


class ImportQuery(Struct, frozen=True, kw_only=True):
    """How the import is taken."""

    validate_only: Annotated[
        bool, Meta(description="Check the text; store nothing (answers 200).")
    ] = False


@operation(
    "POST",
    PATH,
    Contract(
        operation_id="create_rate",
        scope="costs:write",
        summary="Record a dated GPU-hour rate",
        description="Valid on the days of `[valid_from, valid_until)`. A key (gpu_type, currency, "
        "cost_center) has at most one rate a day: an overlap is a 409 that names every rate "
        "in the way. A rate never changes; see corrections.",
        tag=TAG,
        body=RateIn,
        body_examples={"an example amount": RATE_EXAMPLE},
        idempotent=True,
        answers={201: Answer(description="Recorded", body=RateOut, headers=("Location", "ETag"))},
    ),
)
async def create_rate(request: ApiRequest) -> ApiResponse:
    """Record a rate."""
    refuse_query(request)
    document = await read_body(request, RateIn)

    def create(connection: Connection) -> Created:
        return _created(rates.create_rate(connection, actor_of(request), document))

    return await create_once(request, create)


@operation(
    "GET",
    PATH,
    Contract(
        operation_id="list_rates",
        scope="costs:read",
        reveals_costs=True,
        summary="List rates by GPU type, currency, cost center and first day",
        tag=TAG,
        query=RateListQuery,
        answers={200: Answer(description="A page of rates", body=RatePage, headers=("Link",))},
    ),
)
async def list_rates(request: ApiRequest) -> ApiResponse:
    """Answer with a page of rates."""
    query = read_query(request, RateListQuery)
    refuse_malformed_labels({"gpu_type": query.gpu_type, "cost_center": query.cost_center})
    wanted = RateFilter(
        gpu_type=query.gpu_type,
        currency=query.currency,
        cost_center=query.cost_center,
        on=query.on,
        approved=query.approved,
        include_superseded=query.include_superseded,
    )
    return await page_answer(
        request,
        query,
        lambda c, size, token: rates.list_page(
            c,
            actor_of(request),
            wanted,
            page_size=size,
            page_token=token,
        ),
    )


@operation(
    "GET",
    PATH + "/resolution",
    Contract(
        operation_id="resolve_rate",
        scope="costs:read",
        reveals_costs=True,
        summary="Which rate prices a day, and why",
        description="A rate of exactly the cost center wins over one without a cost center. "
        "`rate` is null when no rate is valid on the day, which is a normal state. Where the team "
        "demands approval, rates that wait for it are among those that lost.",
        tag=TAG,
        query=ResolutionQuery,
        answers={200: Answer(description="The rate and the ones that lost", body=ResolutionOut)},
    ),
)
async def resolve_rate(request: ApiRequest) -> ApiResponse:
    """Answer with the rate that prices the day."""
    query = read_query(request, ResolutionQuery)
    refuse_malformed_labels({"gpu_type": query.gpu_type, "cost_center": query.cost_center})
    key = RateKey(gpu_type=query.gpu_type, currency=query.currency, cost_center=query.cost_center)
    as_of = in_utc("as_of", query.as_of)
    found = await read(
        request, lambda c: resolve(c, actor_of(request), key, on=query.on, as_of=as_of)
    )
    return json_answer(found)


@operation(
    "GET",
    PATH + "/{rate_id:str}",
    Contract(
        operation_id="get_rate",
        scope="costs:read",
        reveals_costs=True,
        summary="Read a rate, current or corrected",
        tag=TAG,
        path=RatePath,
        conditional_get=True,
        answers={200: Answer(description="The rate", body=RateOut, headers=("ETag",))},
    ),
)
async def get_rate(request: ApiRequest) -> ApiResponse:
    """Answer with the rate."""
    refuse_query(request)
    rate_id = read_path(request, RatePath).rate_id
    rate = await read(request, lambda c: rates.read_rate(c, actor_of(request), rate_id))
    etag = etag_of(rate.version)
    return not_modified(request, etag) or json_answer(rate, headers={"ETag": etag})


@operation(
    "POST",
    PATH + "/{rate_id:str}/corrections",
    Contract(
        operation_id="correct_rate",
        scope="costs:write",
        summary="Correct a rate: a new row replaces it, the old one stays readable",
        description="What the body does not name stays as it was. The key (gpu_type, currency, "
        "cost_center) cannot change. To end a rate, correct its `valid_until`.",
        tag=TAG,
        path=RatePath,
        body=CorrectionIn,
        body_examples={"end it": CORRECTION_EXAMPLE},
        idempotent=True,
        needs_if_match=True,
        answers={
            201: Answer(description="The new row", body=RateOut, headers=("Location", "ETag"))
        },
    ),
)
async def correct_rate(request: ApiRequest) -> ApiResponse:
    """Record a correction."""
    refuse_query(request)
    rate_id = read_path(request, RatePath).rate_id
    version = expected_version(request)
    document = await read_body(request, CorrectionIn)
    # Also of a repetition, whose stored answer holds the price that was kept.
    require_costs(actor_of(request), "to correct a rate")

    def create(connection: Connection) -> Created:
        return _created(correct(connection, actor_of(request), rate_id, document, version=version))

    return await create_once(request, create)


@operation(
    "POST",
    PATH + "/imports",
    Contract(
        operation_id="import_rates",
        scope="costs:write",
        summary="Import rates from CSV: all of them or none",
        description="Columns gpu_type, currency, price_per_gpu_hour, valid_from, source, and "
        "optionally cost_center and valid_until, in any order. Every fault is named as "
        "`/rows/<line>/<column>`; the header is line 1.",
        tag=TAG,
        query=ImportQuery,
        text_body=(CSV, CSV_EXAMPLE),
        idempotent=True,
        answers={
            201: Answer(description="All recorded", body=ImportOut),
            200: Answer(description="Checked only; nothing was stored", body=ImportOut),
        },
    ),
)
async def import_rates(request: ApiRequest) -> ApiResponse:
    """Record all rates of a text, or only check them."""
    query = read_query(request, ImportQuery)
    text = await read_text(request, CSV)
    actor = actor_of(request)
    if query.validate_only:
        found = await read(request, lambda c: rates.import_rates(c, actor, text, dry_run=True))
        return json_answer(found)
    return await create_once(
        request, lambda c: Created(document=rates.import_rates(c, actor, text))
    )


@operation(
    "POST",
    PATH + "/{rate_id:str}/approval",
    Contract(
        operation_id="approve_rate",
        scope="costs:approve",
        summary="Approve a rate that somebody else has recorded",
        description="Whoever recorded it cannot approve it. Where the team demands approval "
        "(`trainard team update SLUG --require-rate-approval`), a rate prices nothing before, and "
        "an approved rate goes on pricing until its correction is approved as well. Batches that "
        "have ended keep their prices. To repeat an approval is harmless.",
        tag=TAG,
        path=RatePath,
        needs_if_match=True,
        problems=(409,),
        answers={200: Answer(description="The approved rate", body=RateOut, headers=("ETag",))},
    ),
)
async def approve_rate(request: ApiRequest) -> ApiResponse:
    """Approve the rate."""
    refuse_query(request)
    rate_id = read_path(request, RatePath).rate_id
    version = expected_version(request)
    rate = await write(request, lambda c: approve(c, actor_of(request), rate_id, version=version))
    return json_answer(rate, headers={"ETag": etag_of(rate.version)})


def _created(rate: RateOut) -> Created:
    headers = {"Location": f"{PATH}/{rate.id}", "ETag": etag_of(rate.version)}
    return Created(document=rate, headers=headers)


routes: list[HTTPRouteHandler] = [
    create_rate,
    list_rates,
    resolve_rate,
    get_rate,
    correct_rate,
    approve_rate,
    import_rates,
]
