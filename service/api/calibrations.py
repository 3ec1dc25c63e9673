"""`/v1/calibrations`: observed timings as fitted scenario parts."""

from functools import partial
from typing import Annotated, Any
from uuid import UUID

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.answers import empty_answer, json_answer
from service.api.bodies import read_body
from service.api.concurrency import etag_of, expected_version, not_modified
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.file_readings import of_files, options_of
from service.api.idempotency import Created, create_once, replayed
from service.api.list_queries import Moment, PageQuery, in_utc
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.transactions import actor_of, caller_of, in_thread, read, write
from service.api.upload_paths import CALIBRATIONS
from service.api.uploads import received_files
from service.calibration.options import CalibrationOptions
from service.db.calibrations import CalibrationFilter
from service.db.engine import Connection
from service.jobs import calibrations
from service.jobs.batch_documents import ProfileReference
from service.jobs.calibration_acceptance import accept
from service.jobs.calibration_documents import (
    AcceptanceIn,
    CalibrationName,
    CalibrationOut,
    CalibrationPage,
    CalibrationPreview,
    CalibrationState,
)
from service.jobs.calibration_work import find
from service.jobs.calibrations import Found
from service.jobs.digests import digest
from service.jobs.profile_documents import RevisionOut
from service.jobs.profiles import resolve_profile

TAG = "Calibrations"
PATH = CALIBRATIONS

EXAMPLE: dict[str, Any] = {
    "profile": "example-calibrated",
    "new_profile": {"name": "Calibrated from a run", "gpu_type": "H100-SXM"},
    "take": ["num_gpus", "compute_ms"],
    "scenario": {"load_ms": 30, "communication": {"kind": "fixed", "allreduce_ms": 80}},
}


class CalibrationQuery(CalibrationOptions, frozen=True, kw_only=True):
    """What is said beside the files."""

    name: (
        Annotated[CalibrationName, Meta(description="Default: the name of the first file.")] | None
    ) = None
    profile: (
        Annotated[
            ProfileReference,
            Meta(
                description="The cluster that the timings are of: `slug` (newest revision) or "
                "`slug@revision`. It is held against them, and stays as it is."
            ),
        ]
        | None
    ) = None
    validate_only: Annotated[
        bool, Meta(description="Read and fit; store nothing (answers 200).")
    ] = False


class CalibrationListQuery(PageQuery, frozen=True, kw_only=True):
    """Filters of the list of calibrations."""

    profile: (
        Annotated[
            str,
            Meta(
                max_length=64,
                description="Only those of this profile, by slug, or accepted as a revision of it.",
            ),
        ]
        | None
    ) = None
    state: Annotated[CalibrationState, Meta(description="Only those in it.")] | None = None
    name_contains: (
        Annotated[str, Meta(min_length=1, max_length=200, description="In whatever case.")] | None
    ) = None
    created_after: Moment | None = None
    created_before: Moment | None = None


class CalibrationPath(Struct, frozen=True, kw_only=True):
    """The calibration in the path."""

    calibration_id: Annotated[UUID, Meta(description="Id of the calibration.")]


@operation(
    "POST",
    PATH,
    Contract(
        operation_id="create_calibration",
        scope="calibrations:write",
        summary="Fit scenario parts to observed timings",
        description="One or more files, each a part named `file` with a filename: tables of step, "
        "rank and times (CSV, Parquet, JSON Lines), per-operation Parquet, PyTorch profiler "
        "traces (one file a rank), nccl-tests output beside them; each may be gzipped. They are "
        "told apart by their content, and are not kept. What cannot be read for sure is refused "
        "with every reason (`refused-timings`). The answer comes when they are read and fitted, "
        "which takes from seconds to minutes; the work ends when the client goes. One reading at "
        "a time for each caller.",
        tag=TAG,
        takes_files=True,
        query=CalibrationQuery,
        idempotent=True,
        problems=(404,),
        answers={
            201: Answer(
                description="Stored, as a proposal",
                body=CalibrationOut,
                headers=("Location", "ETag"),
            ),
            200: Answer(
                description="Read and fitted only (`validate_only`)", body=CalibrationPreview
            ),
        },
    ),
)
async def create_calibration(request: ApiRequest) -> ApiResponse:
    """Take the files, have them read and fitted, and store what is found."""
    query = read_query(request, CalibrationQuery)
    actor = actor_of(request)
    if query.name is not None:
        calibrations.refuse_bad_name(query.name)
    profile = None
    if query.profile is not None:
        # Before the files come: a wrong name must not cost an upload.
        reference = query.profile
        profile = await read(request, lambda c: resolve_profile(c, actor, reference))
    state = request.app.state
    with state.upload_slots.taken(caller_of(request)):
        async with received_files(request, state.spool) as files:
            body_digest = digest([[file.name, file.sha256] for file in files])
            if not query.validate_only:
                earlier = await replayed(request, body_digest)
                if earlier is not None:
                    return earlier
            options = options_of(query)
            findings = await of_files(request, partial(find, files, options))
    found = Found(
        name=query.name or files[0].name, profile=profile, options=options, findings=findings
    )
    if query.validate_only:
        return json_answer(await in_thread(partial(calibrations.preview, found)))
    # Before the transaction, in which others would wait for it
    predicted = await in_thread(partial(calibrations.foretold, found))

    def create(connection: Connection) -> Created:
        stored = calibrations.store(connection, actor, found, predicted)
        headers = {"Location": f"{PATH}/{stored.id}", "ETag": etag_of(stored.version)}
        return Created(document=stored, headers=headers)

    return await create_once(request, create, body_digest=body_digest)


@operation(
    "GET",
    PATH,
    Contract(
        operation_id="list_calibrations",
        scope="calibrations:read",
        summary="List calibrations without their findings, newest first",
        tag=TAG,
        query=CalibrationListQuery,
        answers={
            200: Answer(
                description="A page of calibrations", body=CalibrationPage, headers=("Link",)
            )
        },
    ),
)
async def list_calibrations(request: ApiRequest) -> ApiResponse:
    """Answer with a page of calibrations."""
    query = read_query(request, CalibrationListQuery)
    wanted = CalibrationFilter(
        profile=query.profile,
        state=query.state,
        name_contains=query.name_contains,
        created_after=in_utc("created_after", query.created_after),
        created_before=in_utc("created_before", query.created_before),
    )
    return await page_answer(
        request,
        query,
        lambda c, size, token: calibrations.list_page(
            c,
            actor_of(request),
            wanted,
            page_size=size,
            page_token=token,
        ),
    )


@operation(
    "GET",
    PATH + "/{calibration_id:str}",
    Contract(
        operation_id="get_calibration",
        scope="calibrations:read",
        summary="Read a calibration with its findings",
        tag=TAG,
        path=CalibrationPath,
        conditional_get=True,
        answers={
            200: Answer(description="The calibration", body=CalibrationOut, headers=("ETag",))
        },
    ),
)
async def get_calibration(request: ApiRequest) -> ApiResponse:
    """Answer with the calibration."""
    refuse_query(request)
    calibration_id = read_path(request, CalibrationPath).calibration_id
    found = await read(
        request, lambda c: calibrations.read_calibration(c, actor_of(request), calibration_id)
    )
    etag = etag_of(found.version)
    return not_modified(request, etag) or json_answer(found, headers={"ETag": etag})


@operation(
    "DELETE",
    PATH + "/{calibration_id:str}",
    Contract(
        operation_id="delete_calibration",
        scope="calibrations:write",
        summary="Delete a calibration that no profile was made of",
        tag=TAG,
        path=CalibrationPath,
        needs_if_match=True,
        problems=(409,),
        answers={204: Answer(description="Deleted")},
    ),
)
async def delete_calibration(request: ApiRequest) -> ApiResponse:
    """Delete the calibration."""
    refuse_query(request)
    calibration_id = read_path(request, CalibrationPath).calibration_id
    version = expected_version(request)
    await write(
        request,
        lambda c: calibrations.delete_calibration(
            c, actor_of(request), calibration_id, version=version
        ),
    )
    return empty_answer(204)


@operation(
    "POST",
    PATH + "/{calibration_id:str}/acceptance",
    Contract(
        operation_id="accept_calibration",
        scope="calibrations:write",
        summary="Make a profile revision of a calibration",
        description="The newest revision of the profile with the proposed values put in, or a new "
        "profile (`new_profile`). The revision says where it comes from (`provenance`). A "
        "calibration may be accepted into several profiles. Needs the scope `profiles:write` too.",
        tag=TAG,
        path=CalibrationPath,
        body=AcceptanceIn,
        body_examples={"a new profile": EXAMPLE},
        idempotent=True,
        problems=(412,),
        answers={
            201: Answer(description="The revision", body=RevisionOut, headers=("Location", "ETag"))
        },
    ),
)
async def accept_calibration(request: ApiRequest) -> ApiResponse:
    """Make the revision."""
    refuse_query(request)
    calibration_id = read_path(request, CalibrationPath).calibration_id
    document = await read_body(request, AcceptanceIn)

    def create(connection: Connection) -> Created:
        revision = accept(connection, actor_of(request), calibration_id, document)
        location = f"/v1/cluster-profiles/{revision.slug}/revisions/{revision.revision}"
        headers = {"Location": location, "ETag": etag_of(str(revision.id))}
        return Created(document=revision, headers=headers)

    return await create_once(request, create)


routes: list[HTTPRouteHandler] = [
    create_calibration,
    list_calibrations,
    get_calibration,
    delete_calibration,
    accept_calibration,
]
