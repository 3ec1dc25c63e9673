"""`/v1/results` and the results of one batch: filter, sort, page, and one result explained."""

from typing import Annotated

import msgspec
from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.answers import json_answer
from service.api.batch_paths import BatchPath
from service.api.concurrency import etag_of, not_modified
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.list_queries import bounded, in_utc
from service.api.pages import link_header
from service.api.parameters import read_path, read_query, refuse_query
from service.api.transactions import actor_of, read
from service.jobs import results
from service.jobs.result_documents import ResultDetail, ResultPage
from service.jobs.result_queries import ResultsQuery

TAG = "Results"
LISTING = (
    "Only computed points are listed; failed ones are under the batch's errors. "
    "`where=path:op:value` (repeatable) and `order_by` take any axis path and result column, "
    "`point` and `item`; rows that are equal in the order come from the newest batch to the "
    "oldest, by point. A page holds what comes after its token when it is asked for: batches that "
    "end or are deleted between two pages shift nothing, and no row is shown twice. Without the "
    "scope costs:read costs are withheld: null, with `cost_status` withheld and no rates."
)


class ResultPath(Struct, frozen=True, kw_only=True):
    """The result in the path."""

    result_id: Annotated[str, Meta(max_length=80, description="`{batch_id}.{point}`.")]


@operation(
    "GET",
    "/v1/results",
    Contract(
        operation_id="list_results",
        scope="results:read",
        reveals_costs=True,
        summary="List results across batches",
        description=LISTING,
        tag=TAG,
        query=ResultsQuery,
        problems=(404, 409),
        answers={200: Answer(description="A page of results", body=ResultPage, headers=("Link",))},
    ),
)
async def list_results(request: ApiRequest) -> ApiResponse:
    """Answer with a page of results."""
    return await _page(request, read_query(request, ResultsQuery))


@operation(
    "GET",
    "/v1/scenario-batches/{batch_id:str}/results",
    Contract(
        operation_id="list_batch_results",
        scope="results:read",
        reveals_costs=True,
        summary="List the results of a batch",
        description=LISTING + " A batch that has not ended answers 409 `batch-not-finished`.",
        tag=TAG,
        path=BatchPath,
        query=ResultsQuery,
        problems=(409,),
        answers={200: Answer(description="A page of results", body=ResultPage, headers=("Link",))},
    ),
)
async def list_batch_results(request: ApiRequest) -> ApiResponse:
    """Answer with a page of the batch's results."""
    batch_id = read_path(request, BatchPath).batch_id
    query = read_query(request, ResultsQuery)
    return await _page(request, msgspec.structs.replace(query, batch=batch_id))


@operation(
    "GET",
    "/v1/results/{result_id:str}",
    Contract(
        operation_id="get_result",
        scope="results:read",
        reveals_costs=True,
        summary="Read one result with everything needed to reproduce it",
        tag=TAG,
        path=ResultPath,
        conditional_get=True,
        problems=(409,),
        answers={200: Answer(description="The result", body=ResultDetail, headers=("ETag",))},
    ),
)
async def get_result(request: ApiRequest) -> ApiResponse:
    """Answer with the result and its provenance."""
    refuse_query(request)
    result_id = read_path(request, ResultPath).result_id
    detail = await read(request, lambda c: results.read_one(c, actor_of(request), result_id))
    etag = etag_of(f"{result_id}-{detail.provenance.pricing}")
    return not_modified(request, etag) or json_answer(detail, headers={"ETag": etag})


async def _page(request: ApiRequest, query: ResultsQuery) -> ApiResponse:
    query = msgspec.structs.replace(
        query,
        created_after=in_utc("created_after", query.created_after),
        created_before=in_utc("created_before", query.created_before),
        page_size=bounded(request, query.page_size),
    )
    page = await read(request, lambda c: results.list_page(c, actor_of(request), query))
    return json_answer(page, headers=link_header(request, page.next_page_token))


routes: list[HTTPRouteHandler] = [list_results, list_batch_results, get_result]
