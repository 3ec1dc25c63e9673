"""`/v1/scenario-batches`: the asynchronous unit of work."""

from typing import Annotated

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.accepted_batches import ACCEPTED, ENDED_HEADERS, accepted, when_preferred
from service.api.answers import json_answer
from service.api.batch_paths import BatchPath
from service.api.bodies import read_body, read_json
from service.api.concurrency import etag_of, not_modified
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.examples import BATCH_EXAMPLES, REMEDY_EXAMPLES
from service.api.idempotency import Created, create_once
from service.api.list_queries import PageQuery
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.preferences import PREFER
from service.api.transactions import actor_of, read, settings_of, shows_no_costs, write
from service.db.engine import Connection
from service.jobs import batches, repricings
from service.jobs.batch_documents import (
    BatchIn,
    BatchOut,
    BatchPage,
    BatchPlanOut,
    BatchState,
    PointFaultPage,
)
from service.jobs.finished_batches import FinishedBatch
from service.jobs.point_faults import list_faults
from service.jobs.repricings import PricingList, PricingOut, RepricingIn

TAG = "Scenario batches"


class SubmitQuery(Struct, frozen=True, kw_only=True):
    """How the batch is taken."""

    validate_only: Annotated[
        bool, Meta(description="Check and estimate; store nothing (answers 200).")
    ] = False


class BatchListQuery(PageQuery, frozen=True, kw_only=True):
    """Filters of the list of batches."""

    state: Annotated[BatchState, Meta(description="Only batches in this state.")] | None = None
    name: Annotated[str, Meta(max_length=200, description="Only batches of this name.")] | None = (
        None
    )
    name_contains: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                description="Only batches with this text in their name, in whatever case.",
            ),
        ]
        | None
    ) = None


@operation(
    "POST",
    "/v1/scenario-batches",
    Contract(
        operation_id="submit_batch",
        scope="batches:write",
        reveals_costs=True,
        summary="Post a batch of scenarios",
        description="The batch is checked as a whole and then computed in the background. Each "
        "item is one scenario or a grid of them; faulty items are all reported at once. Points "
        "that alone break a rule fail alone.",
        tag=TAG,
        body=BatchIn,
        body_examples={**BATCH_EXAMPLES, **REMEDY_EXAMPLES},
        query=SubmitQuery,
        idempotent=True,
        request_headers=(PREFER,),
        problems=(503,),
        answers={
            202: ACCEPTED,
            200: Answer(
                description="The plan (`validate_only`; nothing was stored), or, where a wait was "
                "preferred, the ended batch with its first results",
                body=(BatchPlanOut, FinishedBatch),
                headers=ENDED_HEADERS,
            ),
        },
    ),
)
async def submit_batch(request: ApiRequest) -> ApiResponse:
    """Check a batch, or store it and start it."""
    query = read_query(request, SubmitQuery)
    document = await read_json(request)
    limits, actor = settings_of(request).limits, actor_of(request)
    if query.validate_only:
        plan = await read(request, lambda c: batches.check(c, actor, document, limits))
        shows_no_costs(request)
        return json_answer(plan)

    def create(connection: Connection) -> Created:
        return accepted(batches.submit(connection, actor, document, limits))

    return await when_preferred(request, await create_once(request, create))


@operation(
    "GET",
    "/v1/scenario-batches",
    Contract(
        operation_id="list_batches",
        scope="batches:read",
        summary="List batches, newest first",
        tag=TAG,
        query=BatchListQuery,
        answers={200: Answer(description="A page of batches", body=BatchPage, headers=("Link",))},
    ),
)
async def list_batches(request: ApiRequest) -> ApiResponse:
    """Answer with a page of batches."""
    query = read_query(request, BatchListQuery)
    return await page_answer(
        request,
        query,
        lambda c, size, token: batches.list_page(
            c,
            actor_of(request),
            page_size=size,
            page_token=token,
            state=query.state,
            name=query.name,
            name_contains=query.name_contains,
        ),
    )


@operation(
    "GET",
    "/v1/scenario-batches/{batch_id:str}",
    Contract(
        operation_id="get_batch",
        scope="batches:read",
        summary="Read a batch: state, counts, progress",
        tag=TAG,
        path=BatchPath,
        conditional_get=True,
        answers={200: Answer(description="The batch", body=BatchOut, headers=("ETag",))},
    ),
)
async def get_batch(request: ApiRequest) -> ApiResponse:
    """Answer with the batch."""
    refuse_query(request)
    batch_id = read_path(request, BatchPath).batch_id
    batch = await read(request, lambda c: batches.get(c, actor_of(request), batch_id))
    etag = etag_of(batch.version)
    return not_modified(request, etag) or json_answer(batch, headers={"ETag": etag})


@operation(
    "GET",
    "/v1/scenario-batches/{batch_id:str}/errors",
    Contract(
        operation_id="list_batch_errors",
        scope="batches:read",
        summary="List the failed points of a batch, each with its reason",
        tag=TAG,
        path=BatchPath,
        query=PageQuery,
        answers={
            200: Answer(
                description="A page of failed points", body=PointFaultPage, headers=("Link",)
            )
        },
    ),
)
async def list_batch_errors(request: ApiRequest) -> ApiResponse:
    """Answer with a page of failed points."""
    query = read_query(request, PageQuery)
    batch_id = read_path(request, BatchPath).batch_id
    return await page_answer(
        request,
        query,
        lambda c, size, token: list_faults(
            c,
            actor_of(request),
            batch_id,
            page_size=size,
            page_token=token,
        ),
    )


@operation(
    "POST",
    "/v1/scenario-batches/{batch_id:str}/cancellation",
    Contract(
        operation_id="cancel_batch",
        scope="batches:write",
        summary="Cancel a batch; finished points are kept",
        description="Repeating it is harmless; a batch that has ended answers 409.",
        tag=TAG,
        path=BatchPath,
        problems=(409,),
        answers={202: Answer(description="It is or will be canceled", body=BatchOut)},
    ),
)
async def cancel_batch(request: ApiRequest) -> ApiResponse:
    """Cancel the batch."""
    refuse_query(request)
    batch_id = read_path(request, BatchPath).batch_id
    batch = await write(request, lambda c: batches.cancel(c, actor_of(request), batch_id))
    request.app.state.engine.wake()
    return json_answer(batch, status=202)


@operation(
    "POST",
    "/v1/scenario-batches/{batch_id:str}/repricings",
    Contract(
        operation_id="reprice_batch",
        scope="costs:read",
        reveals_costs=True,
        summary="Price an ended batch again, with the rates of now",
        description="The pricing that the batch got when it ended stays; the new one is asked for "
        "by its number, `pricing=`, in results, exports and comparisons.",
        tag=TAG,
        path=BatchPath,
        body=RepricingIn,
        body_examples={"in another currency": {"currency": "EUR"}},
        idempotent=True,
        problems=(409,),
        answers={
            201: Answer(description="The new pricing", body=PricingOut, headers=("Location",))
        },
    ),
)
async def reprice_batch(request: ApiRequest) -> ApiResponse:
    """Make another pricing."""
    refuse_query(request)
    batch_id = read_path(request, BatchPath).batch_id
    document = await read_body(request, RepricingIn)
    actor = actor_of(request)

    def create(connection: Connection) -> Created:
        return Created(
            document=repricings.reprice(connection, actor, batch_id, document),
            headers={"Location": f"/v1/scenario-batches/{batch_id}/pricings"},
        )

    return await create_once(request, create)


@operation(
    "GET",
    "/v1/scenario-batches/{batch_id:str}/pricings",
    Contract(
        operation_id="list_pricings",
        scope="costs:read",
        reveals_costs=True,
        summary="List the pricings of a batch",
        tag=TAG,
        path=BatchPath,
        answers={200: Answer(description="All pricings", body=PricingList)},
    ),
)
async def list_pricings(request: ApiRequest) -> ApiResponse:
    """Answer with all pricings."""
    refuse_query(request)
    batch_id = read_path(request, BatchPath).batch_id
    return json_answer(
        await read(request, lambda c: repricings.list_pricings(c, actor_of(request), batch_id))
    )


routes: list[HTTPRouteHandler] = [
    submit_batch,
    list_batches,
    get_batch,
    list_batch_errors,
    cancel_batch,
    reprice_batch,
    list_pricings,
]
