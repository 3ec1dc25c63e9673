"""`/v1/comparisons` and `/v1/loss-history`: what changed, and why."""

from datetime import UTC, datetime

from litestar.handlers import HTTPRouteHandler
from msgspec import structs

from service.api.answers import json_answer
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.list_queries import bounded, in_utc
from service.api.pages import link_header
from service.api.parameters import read_query
from service.api.transactions import actor_of, read
from service.jobs import comparisons, loss_histories
from service.jobs.comparisons import ComparisonOut, ComparisonQuery
from service.jobs.history_documents import HistoryOut, HistoryQuery

TAG = "Comparisons"


@operation(
    "GET",
    "/v1/comparisons",
    Contract(
        operation_id="compare_batches",
        scope="results:read",
        reveals_costs=True,
        summary="Compare two batches point by point",
        description="Points are joined on scenario name, profile slug and the values on the axes "
        "of both batches. A change below 1e-8 is exactly 0. Totals hold headline points only, "
        "since the points of a grid are alternatives. A difference of money is split into what "
        "the GPU-hours did (volume) and what the rates did (price). Without the scope costs:read "
        "money is withheld.",
        tag=TAG,
        query=ComparisonQuery,
        problems=(404, 409, 422),
        answers={200: Answer(description="The comparison", body=ComparisonOut, headers=("Link",))},
    ),
)
async def compare_batches(request: ApiRequest) -> ApiResponse:
    """Answer with a page of the comparison."""
    query = read_query(request, ComparisonQuery)
    size = bounded(request, query.page_size)
    out = await read(
        request, lambda c: comparisons.compare(c, actor_of(request), query, page_size=size)
    )
    return json_answer(out, headers=link_header(request, out.next_page_token))


@operation(
    "GET",
    "/v1/loss-history",
    Contract(
        operation_id="read_loss_history",
        scope="results:read",
        reveals_costs=True,
        summary="Read how the loss moves over time",
        description="The headline points of a scenario, of a profile or of a schedule's runs, "
        "oldest first, per day and per 30 days, each with its change against the run before: why "
        "the GPU-hours moved, where a report has told, and which rate moved the money. "
        "`group_by=profile|team` gives totals instead, one for each run, and counts what has no "
        "headline point or failed. Windows may overlap and are never added. `as_of` shows what "
        "was known then, `pricing=newest` the newest prices. Without the scope costs:read money "
        "is withheld.",
        tag=TAG,
        query=HistoryQuery,
        problems=(404,),
        answers={200: Answer(description="The history", body=HistoryOut, headers=("Link",))},
    ),
)
async def read_loss_history(request: ApiRequest) -> ApiResponse:
    """Answer with the history."""
    asked = read_query(request, HistoryQuery)
    query = structs.replace(asked, as_of=in_utc("as_of", asked.as_of))
    size = bounded(request, query.page_size)
    now = datetime.now(UTC)
    out = await read(
        request,
        lambda c: loss_histories.history(c, actor_of(request), query, now, page_size=size),
    )
    return json_answer(out, headers=link_header(request, out.next_page_token))


routes: list[HTTPRouteHandler] = [compare_batches, read_loss_history]
