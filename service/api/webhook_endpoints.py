"""`/v1/webhook-endpoints`: where the team's reports are told to."""

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import structlog
from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct, structs

from service.api.answers import empty_answer, json_answer
from service.api.bodies import read_body, read_optional_body
from service.api.concurrency import etag_of, expected_version
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.deliveries import DELIVERIES_PATH, wake
from service.api.idempotency import Created, create_once
from service.api.list_queries import PageQuery
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.transactions import actor_of, read, settings_of, shows_no_costs, write
from service.db.deliveries import DeliveryFilter
from service.db.engine import Connection
from service.jobs import deliveries, webhook_endpoints
from service.jobs.delivery_documents import DeliveryDetailOut, DeliveryPage
from service.jobs.webhook_documents import (
    EndpointChangeIn,
    EndpointIn,
    EndpointOut,
    EndpointPage,
    NewEndpointOut,
    RotationIn,
)

log = structlog.get_logger()

TAG = "Webhooks"
PATH = "/v1/webhook-endpoints"
ONE = PATH + "/{endpoint_id:str}"

ENDPOINT_EXAMPLE: dict[str, Any] = {
    "name": "chat of the platform team",
    "url": "https://hooks.example.org/trainard",
}


class EndpointPath(Struct, frozen=True, kw_only=True):
    """The endpoint in the path."""

    endpoint_id: Annotated[UUID, Meta(description="Id of the webhook endpoint.")]


@operation(
    "POST",
    PATH,
    Contract(
        operation_id="create_webhook_endpoint",
        scope="webhooks:write",
        summary="Make a webhook endpoint",
        description="Messages are signed by Standard Webhooks with `secret`, which is in this "
        "answer only. A schedule names the endpoint in its deliveries. What is done about "
        "failures, and how to receive: .github/deliveries.md.",
        tag=TAG,
        body=EndpointIn,
        body_examples={"without money": ENDPOINT_EXAMPLE},
        idempotent=True,
        answers={
            201: Answer(description="Made", body=NewEndpointOut, headers=("Location", "ETag"))
        },
    ),
)
async def create_webhook_endpoint(request: ApiRequest) -> ApiResponse:
    """Make an endpoint."""
    refuse_query(request)
    document = await read_body(request, EndpointIn)
    settings = settings_of(request)
    if not settings.deliveries.secrets_key:
        log.warning("webhook_secret_not_encrypted", mend="set TRAINARD_SECRETS_KEY")

    def create(connection: Connection) -> Created:
        made = webhook_endpoints.create_endpoint(
            connection, actor_of(request), document, settings, now=datetime.now(UTC)
        )
        return _with_secret(made)

    return await create_once(request, create)


@operation(
    "GET",
    PATH,
    Contract(
        operation_id="list_webhook_endpoints",
        scope="schedules:read",
        summary="List the webhook endpoints of the team, the oldest first",
        tag=TAG,
        query=PageQuery,
        answers={200: Answer(description="A page", body=EndpointPage, headers=("Link",))},
    ),
)
async def list_webhook_endpoints(request: ApiRequest) -> ApiResponse:
    """Answer with a page of endpoints."""
    query = read_query(request, PageQuery)
    return await page_answer(
        request,
        query,
        lambda c, size, token: webhook_endpoints.list_page(
            c, actor_of(request), page_size=size, page_token=token, now=datetime.now(UTC)
        ),
    )


@operation(
    "GET",
    ONE,
    Contract(
        operation_id="get_webhook_endpoint",
        scope="schedules:read",
        summary="Read a webhook endpoint, without its secret",
        tag=TAG,
        path=EndpointPath,
        answers={200: Answer(description="The endpoint", body=EndpointOut, headers=("ETag",))},
    ),
)
async def get_webhook_endpoint(request: ApiRequest) -> ApiResponse:
    """Answer with the endpoint; never with 304: an old secret ends without a new version."""
    refuse_query(request)
    endpoint_id = read_path(request, EndpointPath).endpoint_id
    found = await read(
        request,
        lambda c: webhook_endpoints.read_endpoint(
            c, actor_of(request), endpoint_id, now=datetime.now(UTC)
        ),
    )
    return json_answer(found, headers={"ETag": etag_of(found.version)})


@operation(
    "PATCH",
    ONE,
    Contract(
        operation_id="change_webhook_endpoint",
        scope="webhooks:write",
        summary="Change a webhook endpoint, disable it or enable it again",
        description="What the body does not name stays. An endpoint that is or was sent money is "
        "turned elsewhere, and taken back into use, only by those who may see money.",
        tag=TAG,
        path=EndpointPath,
        body=EndpointChangeIn,
        body_examples={"disable it": {"enabled": False}},
        needs_if_match=True,
        answers={200: Answer(description="Changed", body=EndpointOut, headers=("ETag",))},
    ),
)
async def change_webhook_endpoint(request: ApiRequest) -> ApiResponse:
    """Change what the body names."""
    refuse_query(request)
    endpoint_id = read_path(request, EndpointPath).endpoint_id
    version = expected_version(request)
    change = await read_body(request, EndpointChangeIn)
    settings = settings_of(request)
    changed = await write(
        request,
        lambda c: webhook_endpoints.change_endpoint(
            c,
            actor_of(request),
            endpoint_id,
            change,
            settings,
            version=version,
            now=datetime.now(UTC),
        ),
    )
    return json_answer(changed, headers={"ETag": etag_of(changed.version)})


@operation(
    "DELETE",
    ONE,
    Contract(
        operation_id="delete_webhook_endpoint",
        scope="webhooks:write",
        summary="Delete a webhook endpoint",
        description="What waits for it is canceled. Its deliveries stay in the log; schedules "
        "that name it go on without it.",
        tag=TAG,
        path=EndpointPath,
        needs_if_match=True,
        answers={204: Answer(description="Deleted")},
    ),
)
async def delete_webhook_endpoint(request: ApiRequest) -> ApiResponse:
    """Delete the endpoint."""
    refuse_query(request)
    endpoint_id = read_path(request, EndpointPath).endpoint_id
    version = expected_version(request)
    await write(
        request,
        lambda c: webhook_endpoints.delete_endpoint(
            c, actor_of(request), endpoint_id, version=version, now=datetime.now(UTC)
        ),
    )
    return empty_answer(204)


@operation(
    "POST",
    ONE + "/secret-rotation",
    Contract(
        operation_id="rotate_webhook_secret",
        scope="webhooks:write",
        summary="Make a new secret for a webhook endpoint",
        description="The old one signs beside it for `overlap_s` (a day), so that the receiver "
        "can change over in its own time. The new one is in this answer only. 409 while three sign "
        "already; that of an endpoint with money needs costs:read.",
        tag=TAG,
        path=EndpointPath,
        body=RotationIn,
        body_examples={"with a day of both": {}, "at once": {"overlap_s": 0}},
        needs_body=False,
        idempotent=True,
        answers={
            201: Answer(
                description="The endpoint with its new secret",
                body=NewEndpointOut,
                headers=("Location", "ETag"),
            )
        },
    ),
)
async def rotate_webhook_secret(request: ApiRequest) -> ApiResponse:
    """Rotate the secret."""
    refuse_query(request)
    endpoint_id = read_path(request, EndpointPath).endpoint_id
    document = await read_optional_body(request, RotationIn)
    settings = settings_of(request)

    def rotate(connection: Connection) -> Created:
        rotated = webhook_endpoints.rotate_secret(
            connection,
            actor_of(request),
            endpoint_id,
            settings,
            overlap_s=document.overlap_s,
            now=datetime.now(UTC),
        )
        return _with_secret(rotated)

    return await create_once(request, rotate)


@operation(
    "POST",
    ONE + "/test",
    Contract(
        operation_id="test_webhook_endpoint",
        scope="webhooks:write",
        summary="Send a message that tries a webhook endpoint",
        description="A `webhook.test` goes the way of all messages: signed, logged, tried again. "
        "It holds no money. 409 while the endpoint is disabled, or three of them wait.",
        tag=TAG,
        path=EndpointPath,
        idempotent=True,
        answers={
            202: Answer(
                description="It will be sent at once",
                body=DeliveryDetailOut,
                headers=("Location", "Retry-After"),
            )
        },
    ),
)
async def test_webhook_endpoint(request: ApiRequest) -> ApiResponse:
    """Put the message into the outbox."""
    refuse_query(request)
    endpoint_id = read_path(request, EndpointPath).endpoint_id

    def send(connection: Connection) -> Created:
        actor = actor_of(request)
        now = datetime.now(UTC)
        delivery_id = webhook_endpoints.send_trial(connection, actor, endpoint_id, now=now)
        return Created(
            document=deliveries.get(connection, actor, delivery_id),
            status=202,
            headers={"Location": f"{DELIVERIES_PATH}/{delivery_id}", "Retry-After": "1"},
        )

    answer = await create_once(request, send)
    wake(request)
    return answer


@operation(
    "GET",
    ONE + "/deliveries",
    Contract(
        operation_id="list_endpoint_deliveries",
        scope="schedules:read",
        reveals_costs=True,
        summary="List what was sent to a webhook endpoint, newest first",
        description="Also of a deleted one. More filters: GET /v1/deliveries.",
        tag=TAG,
        path=EndpointPath,
        query=PageQuery,
        answers={200: Answer(description="A page", body=DeliveryPage, headers=("Link",))},
    ),
)
async def list_endpoint_deliveries(request: ApiRequest) -> ApiResponse:
    """Answer with a page of its deliveries."""
    query = read_query(request, PageQuery)
    endpoint_id = read_path(request, EndpointPath).endpoint_id
    wanted = DeliveryFilter(endpoint_id=endpoint_id)

    def listed(connection: Connection, size: int, token: str | None) -> DeliveryPage:
        actor = actor_of(request)
        deliveries.require_endpoint(connection, actor, endpoint_id)
        page = deliveries.list_page(connection, actor, wanted, page_size=size, page_token=token)
        if not any(item.includes_costs for item in page.items):
            shows_no_costs(request)
        return page

    return await page_answer(request, query, listed)


def _with_secret(made: NewEndpointOut) -> Created:
    return Created(
        document=made,
        stored_document=structs.replace(made, secret=None),
        headers={
            "Location": f"{PATH}/{made.id}",
            "ETag": etag_of(made.version),
            "Cache-Control": "no-store",
        },
    )


routes: list[HTTPRouteHandler] = [
    create_webhook_endpoint,
    list_webhook_endpoints,
    get_webhook_endpoint,
    change_webhook_endpoint,
    delete_webhook_endpoint,
    rotate_webhook_secret,
    test_webhook_endpoint,
    list_endpoint_deliveries,
]
