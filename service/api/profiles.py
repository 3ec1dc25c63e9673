"""`/v1/cluster-profiles`: named scenario defaults of real clusters."""

from typing import Annotated, Any

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.concurrency import etag_of, expected_version, not_modified
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.idempotency import Created, create_once
from service.api.list_queries import Moment, PageQuery, in_utc, refuse_malformed_labels
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.transactions import actor_of, read, write
from service.db.engine import Connection
from service.db.profiles import ProfileFilter
from service.jobs import profile_changes, profiles
from service.jobs.documents import MAX_NUMBER
from service.jobs.labels import CostCenter, GpuType
from service.jobs.profile_documents import (
    ProfileIn,
    ProfileOut,
    ProfilePage,
    RevisionIn,
    RevisionOut,
    RevisionPage,
)

TAG = "Cluster profiles"
PATH = "/v1/cluster-profiles"

REVISION_EXAMPLE: dict[str, Any] = {
    "name": "Example H100, 512 GPUs",
    "gpu_type": "H100-SXM",
    "cost_center": "research",
    "tags": {"site": "par1"},
    "defaults": {
        "num_gpus": 512,
        "load_ms": 30,
        "compute_ms": 300,
        "communication": {"kind": "fixed", "allreduce_ms": 80},
    },
}


class ProfilePath(Struct, frozen=True, kw_only=True):
    """The profile in the path."""

    slug: Annotated[
        str, Meta(max_length=64, description="Slug of the profile.", examples=["prod-h100"])
    ]


class RevisionPath(ProfilePath, frozen=True, kw_only=True):
    """The revision in the path."""

    revision: Annotated[
        int, Meta(ge=1, le=MAX_NUMBER, description="Its number, from 1.", examples=[1])
    ]


class ProfileListQuery(PageQuery, frozen=True, kw_only=True):
    """Filters of the list of profiles."""

    gpu_type: Annotated[GpuType, Meta(description="Only profiles of this type.")] | None = None
    cost_center: Annotated[CostCenter, Meta(description="Only profiles of it.")] | None = None
    tag: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    pattern=r"^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?:.+$",
                    max_length=320,
                ),
            ],
            ...,
        ],
        Meta(description="`key:value`; repeated, all must hold.", max_length=32),
    ] = ()
    created_after: Moment | None = None
    created_before: Moment | None = None
    include_archived: Annotated[bool, Meta(description="Archived profiles too.")] = False


@operation(
    "POST",
    PATH,
    Contract(
        operation_id="create_profile",
        scope="profiles:write",
        summary="Create a cluster profile",
        description="It becomes revision 1. `defaults` is a whole scenario, checked as such; "
        "batches and evaluations name the profile as `slug` or `slug@revision`.",
        tag=TAG,
        body=ProfileIn,
        body_examples={"an H100 cluster": {"slug": "example-h100", **REVISION_EXAMPLE}},
        idempotent=True,
        answers={201: Answer(description="Created", body=ProfileOut, headers=("Location", "ETag"))},
    ),
)
async def create_profile(request: ApiRequest) -> ApiResponse:
    """Store a profile with its first revision."""
    refuse_query(request)
    document = await read_body(request, ProfileIn)

    def create(connection: Connection) -> Created:
        profile = profile_changes.create_profile(connection, actor_of(request), document)
        return Created(document=profile, headers=_headers(profile, f"{PATH}/{profile.slug}"))

    return await create_once(request, create)


@operation(
    "GET",
    PATH,
    Contract(
        operation_id="list_profiles",
        scope="profiles:read",
        summary="List cluster profiles with their newest revision, by slug",
        tag=TAG,
        query=ProfileListQuery,
        answers={
            200: Answer(description="A page of profiles", body=ProfilePage, headers=("Link",))
        },
    ),
)
async def list_profiles(request: ApiRequest) -> ApiResponse:
    """Answer with a page of profiles."""
    query = read_query(request, ProfileListQuery)
    refuse_malformed_labels({"gpu_type": query.gpu_type, "cost_center": query.cost_center})
    pairs = [tag.partition(":") for tag in query.tag]
    wanted = ProfileFilter(
        gpu_type=query.gpu_type,
        cost_center=query.cost_center,
        tags=tuple((key, value) for key, _, value in pairs),
        created_after=in_utc("created_after", query.created_after),
        created_before=in_utc("created_before", query.created_before),
        include_archived=query.include_archived,
    )
    return await page_answer(
        request,
        query,
        lambda c, size, token: profiles.list_page(
            c,
            actor_of(request),
            wanted,
            page_size=size,
            page_token=token,
        ),
    )


@operation(
    "GET",
    PATH + "/{slug:str}",
    Contract(
        operation_id="get_profile",
        scope="profiles:read",
        summary="Read a cluster profile with its newest revision",
        tag=TAG,
        path=ProfilePath,
        conditional_get=True,
        answers={200: Answer(description="The profile", body=ProfileOut, headers=("ETag",))},
    ),
)
async def get_profile(request: ApiRequest) -> ApiResponse:
    """Answer with the profile."""
    refuse_query(request)
    slug = read_path(request, ProfilePath).slug
    profile = await read(request, lambda c: profiles.read_profile(c, actor_of(request), slug))
    etag = etag_of(profile.version)
    return not_modified(request, etag) or json_answer(profile, headers={"ETag": etag})


@operation(
    "GET",
    PATH + "/{slug:str}/revisions",
    Contract(
        operation_id="list_profile_revisions",
        scope="profiles:read",
        summary="List the revisions of a profile, newest first",
        tag=TAG,
        path=ProfilePath,
        query=PageQuery,
        answers={
            200: Answer(description="A page of revisions", body=RevisionPage, headers=("Link",))
        },
    ),
)
async def list_profile_revisions(request: ApiRequest) -> ApiResponse:
    """Answer with a page of revisions."""
    query = read_query(request, PageQuery)
    slug = read_path(request, ProfilePath).slug
    return await page_answer(
        request,
        query,
        lambda c, size, token: profiles.list_revisions(
            c,
            actor_of(request),
            slug,
            page_size=size,
            page_token=token,
        ),
    )


@operation(
    "POST",
    PATH + "/{slug:str}/revisions",
    Contract(
        operation_id="revise_profile",
        scope="profiles:write",
        summary="Make the next revision of a profile",
        description="The body replaces the revision before as a whole; earlier revisions stay "
        "and can be named for ever. If-Match is the ETag of the profile.",
        tag=TAG,
        path=ProfilePath,
        body=RevisionIn,
        body_examples={"half the cluster": REVISION_EXAMPLE},
        idempotent=True,
        needs_if_match=True,
        answers={
            201: Answer(
                description="The profile, revised", body=ProfileOut, headers=("Location", "ETag")
            )
        },
    ),
)
async def revise_profile(request: ApiRequest) -> ApiResponse:
    """Store the next revision."""
    refuse_query(request)
    slug = read_path(request, ProfilePath).slug
    version = expected_version(request)
    document = await read_body(request, RevisionIn)

    def create(connection: Connection) -> Created:
        profile = profile_changes.revise_profile(
            connection, actor_of(request), slug, document, version=version
        )
        location = f"{PATH}/{slug}/revisions/{profile.revision}"
        return Created(document=profile, headers=_headers(profile, location))

    return await create_once(request, create)


@operation(
    "GET",
    PATH + "/{slug:str}/revisions/{revision:str}",
    Contract(
        operation_id="get_profile_revision",
        scope="profiles:read",
        summary="Read one revision of a profile; it never changes",
        tag=TAG,
        path=RevisionPath,
        conditional_get=True,
        answers={200: Answer(description="The revision", body=RevisionOut, headers=("ETag",))},
    ),
)
async def get_profile_revision(request: ApiRequest) -> ApiResponse:
    """Answer with the revision."""
    refuse_query(request)
    path = read_path(request, RevisionPath)
    revision = await read(
        request, lambda c: profiles.read_revision(c, actor_of(request), path.slug, path.revision)
    )
    etag = etag_of(str(revision.id))
    return not_modified(request, etag) or json_answer(revision, headers={"ETag": etag})


@operation(
    "POST",
    PATH + "/{slug:str}/archival",
    Contract(
        operation_id="archive_profile",
        scope="profiles:write",
        summary="Archive a profile: readable, but refused in new work",
        description="Repeating it with the current ETag changes nothing.",
        tag=TAG,
        path=ProfilePath,
        needs_if_match=True,
        answers={200: Answer(description="The profile", body=ProfileOut, headers=("ETag",))},
    ),
)
async def archive_profile(request: ApiRequest) -> ApiResponse:
    """Archive the profile."""
    refuse_query(request)
    slug = read_path(request, ProfilePath).slug
    version = expected_version(request)
    profile = await write(
        request,
        lambda c: profile_changes.archive_profile(c, actor_of(request), slug, version=version),
    )
    return json_answer(profile, headers=_headers(profile))


@operation(
    "DELETE",
    PATH + "/{slug:str}/archival",
    Contract(
        operation_id="restore_profile",
        scope="profiles:write",
        summary="Take an archived profile back into use",
        tag=TAG,
        path=ProfilePath,
        needs_if_match=True,
        answers={200: Answer(description="The profile", body=ProfileOut, headers=("ETag",))},
    ),
)
async def restore_profile(request: ApiRequest) -> ApiResponse:
    """Restore the profile."""
    refuse_query(request)
    slug = read_path(request, ProfilePath).slug
    version = expected_version(request)
    profile = await write(
        request,
        lambda c: profile_changes.restore_profile(c, actor_of(request), slug, version=version),
    )
    return json_answer(profile, headers=_headers(profile))


def _headers(profile: ProfileOut, location: str | None = None) -> dict[str, str]:
    etag = {"ETag": etag_of(profile.version)}
    return etag if location is None else {"Location": location, **etag}


routes: list[HTTPRouteHandler] = [
    create_profile,
    list_profiles,
    get_profile,
    list_profile_revisions,
    revise_profile,
    get_profile_revision,
    archive_profile,
    restore_profile,
]
