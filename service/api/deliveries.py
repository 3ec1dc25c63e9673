"""`/v1/deliveries`: what was sent, what waits and what was given up."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.answers import json_answer
from service.api.concurrency import etag_of
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.list_queries import Moment, PageQuery, in_utc
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.transactions import actor_of, read, shows_no_costs, write
from service.db.deliveries import DeliveryFilter
from service.db.engine import Connection
from service.jobs import deliveries
from service.jobs.delivery_documents import (
    DeliveryDetailOut,
    DeliveryKind,
    DeliveryPage,
    DeliveryState,
)

TAG = "Deliveries"
DELIVERIES_PATH = "/v1/deliveries"
ONE = DELIVERIES_PATH + "/{delivery_id:str}"


class DeliveryPath(Struct, frozen=True, kw_only=True):
    """The delivery in the path."""

    delivery_id: Annotated[UUID, Meta(description="Id of the delivery.")]


class DeliveryListQuery(PageQuery, frozen=True, kw_only=True):
    """Filters of the log."""

    state: Annotated[DeliveryState, Meta(description="Only of this state.")] | None = None
    kind: Annotated[DeliveryKind, Meta(description="Only of this way of delivery.")] | None = None
    schedule: (
        Annotated[
            str,
            Meta(min_length=1, max_length=64, description="Id or slug of a schedule."),
        ]
        | None
    ) = None
    run: Annotated[UUID, Meta(description="Id of a run.")] | None = None
    endpoint: Annotated[UUID, Meta(description="Id of a webhook endpoint.")] | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None


@operation(
    "GET",
    DELIVERIES_PATH,
    Contract(
        operation_id="list_deliveries",
        scope="schedules:read",
        reveals_costs=True,
        summary="List deliveries, newest first",
        description="`state=dead` is the list of what was given up. What tells of money is "
        "withheld without costs:read; where the state itself tells of money, it is `withheld` and "
        "found by no filter of state.",
        tag=TAG,
        query=DeliveryListQuery,
        answers={200: Answer(description="A page", body=DeliveryPage, headers=("Link",))},
    ),
)
async def list_deliveries(request: ApiRequest) -> ApiResponse:
    """Answer with a page of deliveries."""
    query = read_query(request, DeliveryListQuery)
    wanted = DeliveryFilter(
        state=query.state,
        kind=query.kind,
        schedule=query.schedule,
        run_id=query.run,
        endpoint_id=query.endpoint,
        created_after=in_utc("created_after", query.created_after),
        created_before=in_utc("created_before", query.created_before),
    )

    def listed(connection: Connection, size: int, token: str | None) -> DeliveryPage:
        page = deliveries.list_page(
            connection, actor_of(request), wanted, page_size=size, page_token=token
        )
        if not any(item.includes_costs for item in page.items):
            shows_no_costs(request)
        return page

    return await page_answer(request, query, listed)


@operation(
    "GET",
    ONE,
    Contract(
        operation_id="get_delivery",
        scope="schedules:read",
        reveals_costs=True,
        summary="Read a delivery with its attempts",
        tag=TAG,
        path=DeliveryPath,
        answers={200: Answer(description="It", body=DeliveryDetailOut, headers=("ETag",))},
    ),
)
async def get_delivery(request: ApiRequest) -> ApiResponse:
    """Answer with the delivery."""
    refuse_query(request)
    delivery_id = read_path(request, DeliveryPath).delivery_id
    found = await read(request, lambda c: deliveries.get(c, actor_of(request), delivery_id))
    return _answered(request, found)


@operation(
    "POST",
    ONE + "/replay",
    Contract(
        operation_id="replay_delivery",
        scope="schedules:write",
        reveals_costs=True,
        summary="Send a delivery again, or at once",
        description="The same message under the same id, in a new round of attempts: what was "
        "given up, what the receiver has lost, and what was skipped. One that waits for its next "
        "attempt has it now. One with money needs costs:read. 409 when its endpoint is disabled "
        "or deleted.",
        tag=TAG,
        path=DeliveryPath,
        problems=(409,),
        answers={
            202: Answer(
                description="It will be sent at once",
                body=DeliveryDetailOut,
                headers=("Location", "Retry-After", "ETag"),
            )
        },
    ),
)
async def replay_delivery(request: ApiRequest) -> ApiResponse:
    """Put it into the outbox again."""
    refuse_query(request)
    delivery_id = read_path(request, DeliveryPath).delivery_id
    found = await write(
        request,
        lambda c: deliveries.replay(c, actor_of(request), delivery_id, now=datetime.now(UTC)),
    )
    wake(request)
    headers = {"Location": f"{DELIVERIES_PATH}/{delivery_id}", "Retry-After": "1"}
    return _answered(request, found, status=202, headers=headers)


@operation(
    "POST",
    ONE + "/cancellation",
    Contract(
        operation_id="cancel_delivery",
        scope="schedules:write",
        reveals_costs=True,
        summary="Call off a delivery that waits",
        description="An attempt that is on its way is not stopped; its outcome is logged. "
        "Repeating it is harmless. 409 when it has ended otherwise.",
        tag=TAG,
        path=DeliveryPath,
        problems=(409,),
        answers={200: Answer(description="It", body=DeliveryDetailOut, headers=("ETag",))},
    ),
)
async def cancel_delivery(request: ApiRequest) -> ApiResponse:
    """Call it off."""
    refuse_query(request)
    delivery_id = read_path(request, DeliveryPath).delivery_id
    found = await write(
        request,
        lambda c: deliveries.cancel(c, actor_of(request), delivery_id, now=datetime.now(UTC)),
    )
    return _answered(request, found)


def wake(request: ApiRequest) -> None:
    """Have the courier look now."""
    request.app.state.engine.wake()


def _answered(
    request: ApiRequest,
    found: DeliveryDetailOut,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> ApiResponse:
    if not found.includes_costs:
        shows_no_costs(request)
    etag = {"ETag": etag_of(found.version)}
    return json_answer(found, status=status, headers={**(headers or {}), **etag})


routes: list[HTTPRouteHandler] = [
    list_deliveries,
    get_delivery,
    replay_delivery,
    cancel_delivery,
]
