"""`/v1/api-keys`: the keys of the caller's own team."""

from typing import Annotated, Any
from uuid import UUID

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct, structs

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.concurrency import etag_of, expected_version
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.idempotency import Created, create_once
from service.api.list_queries import PageQuery
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.transactions import actor_of, read, write
from service.db.engine import Connection
from service.jobs import api_keys
from service.jobs.key_documents import KeyChangeIn, KeyIn, KeyOut, KeyPage, NewKeyOut

TAG = "API keys"
PATH = "/v1/api-keys"

KEY_EXAMPLE: dict[str, Any] = {"name": "nightly-planner", "role": "planner"}
WITH_COSTS_EXAMPLE: dict[str, Any] = {
    "name": "capacity-review",
    "role": "planner",
    "grant": ["costs:read"],
    "expires_at": "2099-12-31T00:00:00Z",
}
READER_EXAMPLE: dict[str, Any] = {
    "name": "prometheus",
    "role": "viewer",
    "only": ["service:read"],
    "expires_at": None,
}


class KeyPath(Struct, frozen=True, kw_only=True):
    """The key in the path."""

    key_id: Annotated[UUID, Meta(description="Id of the key.")]


@operation(
    "POST",
    PATH,
    Contract(
        operation_id="create_api_key",
        scope="keys:write",
        summary="Make an API key",
        description="Its text, `key`, is in this answer only. It holds what its role holds, with "
        "`grant` beside it, of that only `only`; nobody hands out more than they hold. When it is "
        "repeated under its Idempotency-Key, `key` is null: revoke that key and make another. 409 "
        "while no key exists: the first one is made by `trainard key create`.",
        tag=TAG,
        body=KeyIn,
        body_examples={
            "for a program": KEY_EXAMPLE,
            "a planner who sees money": WITH_COSTS_EXAMPLE,
            "for Prometheus": READER_EXAMPLE,
        },
        idempotent=True,
        answers={201: Answer(description="Made", body=NewKeyOut, headers=("Location", "ETag"))},
    ),
)
async def create_api_key(request: ApiRequest) -> ApiResponse:
    """Make a key."""
    refuse_query(request)
    document = await read_body(request, KeyIn)

    def create(connection: Connection) -> Created:
        made = api_keys.create_key(connection, actor_of(request), document)
        return Created(
            document=made,
            stored_document=structs.replace(made, key=None),
            headers={
                "Location": f"{PATH}/{made.id}",
                "Cache-Control": "no-store",
                **_etag(made),
            },
        )

    return await create_once(request, create)


@operation(
    "GET",
    PATH,
    Contract(
        operation_id="list_api_keys",
        scope="keys:read",
        summary="List the API keys of the team, the oldest first",
        description="Revoked and expired ones too: a key is never deleted.",
        tag=TAG,
        query=PageQuery,
        answers={200: Answer(description="A page of keys", body=KeyPage, headers=("Link",))},
    ),
)
async def list_api_keys(request: ApiRequest) -> ApiResponse:
    """Answer with a page of keys."""
    query = read_query(request, PageQuery)
    return await page_answer(
        request,
        query,
        lambda c, size, token: api_keys.list_page(
            c, actor_of(request), page_size=size, page_token=token
        ),
    )


@operation(
    "GET",
    PATH + "/{key_id:str}",
    Contract(
        operation_id="get_api_key",
        scope="keys:read",
        summary="Read an API key of the team, without its secret",
        tag=TAG,
        path=KeyPath,
        answers={200: Answer(description="The key", body=KeyOut, headers=("ETag",))},
    ),
)
async def get_api_key(request: ApiRequest) -> ApiResponse:
    """Answer with the key; never with 304: its last use is no part of its version."""
    refuse_query(request)
    key_id = read_path(request, KeyPath).key_id
    key = await read(request, lambda c: api_keys.read_key(c, actor_of(request), key_id))
    return json_answer(key, headers=_etag(key))


@operation(
    "PATCH",
    PATH + "/{key_id:str}",
    Contract(
        operation_id="change_api_key",
        scope="keys:write",
        summary="Rename an API key, or move its end",
        description="What the body does not name stays. 409 when it is revoked.",
        tag=TAG,
        path=KeyPath,
        body=KeyChangeIn,
        body_examples={"longer": {"expires_at": "2099-12-31T00:00:00Z"}},
        needs_if_match=True,
        problems=(409,),
        answers={200: Answer(description="The key, changed", body=KeyOut, headers=("ETag",))},
    ),
)
async def change_api_key(request: ApiRequest) -> ApiResponse:
    """Change what the body names."""
    refuse_query(request)
    key_id = read_path(request, KeyPath).key_id
    version = expected_version(request)
    change = await read_body(request, KeyChangeIn)
    changed = await write(
        request,
        lambda c: api_keys.change_key(c, actor_of(request), key_id, change, version=version),
    )
    return json_answer(changed, headers=_etag(changed))


@operation(
    "POST",
    PATH + "/{key_id:str}/revocation",
    Contract(
        operation_id="revoke_api_key",
        scope="keys:write",
        summary="Revoke an API key: it is refused from the next request on",
        description="For ever, and without If-Match: revoking must never wait. Repeating it is "
        "harmless.",
        tag=TAG,
        path=KeyPath,
        answers={200: Answer(description="The key, revoked", body=KeyOut, headers=("ETag",))},
    ),
)
async def revoke_api_key(request: ApiRequest) -> ApiResponse:
    """Revoke the key."""
    refuse_query(request)
    key_id = read_path(request, KeyPath).key_id
    revoked = await write(request, lambda c: api_keys.revoke_key(c, actor_of(request), key_id))
    return json_answer(revoked, headers=_etag(revoked))


def _etag(key: KeyOut) -> dict[str, str]:
    return {"ETag": etag_of(key.version)}


routes: list[HTTPRouteHandler] = [
    create_api_key,
    list_api_keys,
    get_api_key,
    change_api_key,
    revoke_api_key,
]
