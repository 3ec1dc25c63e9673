"""`/v1/exports/{id}`: files made in the background, downloaded whole or range by range."""

import base64
from collections.abc import Iterator
from typing import Annotated, Any
from uuid import UUID

from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream
from msgspec import Meta, Struct

from service.api.answers import empty_answer, json_answer
from service.api.bodies import read_body
from service.api.concurrency import etag_of, expected_version, not_modified
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.exports import TAG, parts_in_threads
from service.api.head_requests import is_head
from service.api.idempotency import Created, create_once
from service.api.parameters import read_path, refuse_query
from service.api.problems import answer_error
from service.api.ranges import IF_RANGE, RANGE, RangeNotSatisfiableError, Span, requested_span
from service.api.transactions import actor_of, database_of, read, settings_of, write
from service.db.engine import Connection
from service.jobs import export_files
from service.jobs.export_documents import ExportIn, ExportOut, Sidecar
from service.jobs.export_files import StoredFile
from service.reports.export import EXPORTERS

MEDIA_TYPES = tuple(exporter.media_type for exporter in EXPORTERS.values())
EXPORT_EXAMPLES: dict[str, Any] = {
    "all results below an efficiency, as Parquet": {
        "format": "parquet",
        "where": ["efficiency_fraction:lt:0.9"],
        "order_by": "-gpu_hours_lost",
    },
    "everything, as CSV": {"format": "csv"},
}


class ExportPath(Struct, frozen=True, kw_only=True):
    """The exported file in the path."""

    export_id: Annotated[UUID, Meta(description="Id of the exported file.")]


@operation(
    "POST",
    "/v1/exports",
    Contract(
        operation_id="create_export",
        scope="exports:create",
        summary="Have a file of results or of a comparison made",
        description="The file is made in the background, from one snapshot, and kept for "
        f"{export_files.KEPT_DAYS} days: any process serves any range of it. Filters and order "
        "are those of the list of results; with `comparison` the rows of a comparison are "
        "exported instead. Whether the file shows costs is decided by the scope costs:read of "
        "whoever asks for it; one that does is later given only to those who have it. A file "
        "sorted by `order_by` holds at most 1 000 000 rows; above that "
        "it ends as failed.",
        tag=TAG,
        body=ExportIn,
        body_examples=EXPORT_EXAMPLES,
        idempotent=True,
        problems=(404, 409),
        answers={
            202: Answer(
                description="It will be made",
                body=ExportOut,
                headers=("Location", "ETag", "Retry-After"),
            )
        },
    ),
)
async def create_export(request: ApiRequest) -> ApiResponse:
    """Store what is asked for and wake the engine."""
    refuse_query(request)
    document = await read_body(request, ExportIn)
    actor = actor_of(request)

    def create(connection: Connection) -> Created:
        export = export_files.create(connection, actor, document)
        return Created(
            document=export,
            status=202,
            headers={
                "Location": f"/v1/exports/{export.id}",
                "ETag": etag_of(export.version),
                "Retry-After": "1",
            },
        )

    answer = await create_once(request, create)
    request.app.state.engine.wake()
    return answer


@operation(
    "GET",
    "/v1/exports/{export_id:str}",
    Contract(
        operation_id="get_export",
        scope="exports:create",
        summary="Read an exported file's state, size and SHA-256",
        tag=TAG,
        path=ExportPath,
        conditional_get=True,
        answers={200: Answer(description="The file's state", body=ExportOut, headers=("ETag",))},
    ),
)
async def get_export(request: ApiRequest) -> ApiResponse:
    """Answer with the state."""
    refuse_query(request)
    export_id = read_path(request, ExportPath).export_id
    export = await read(request, lambda c: export_files.get(c, actor_of(request), export_id))
    etag = etag_of(export.version)
    return not_modified(request, etag) or json_answer(export, headers={"ETag": etag})


@operation(
    "DELETE",
    "/v1/exports/{export_id:str}",
    Contract(
        operation_id="delete_export",
        scope="exports:create",
        summary="Delete an exported file, or stop making it",
        tag=TAG,
        path=ExportPath,
        needs_if_match=True,
        answers={204: Answer(description="It is deleted")},
    ),
)
async def delete_export(request: ApiRequest) -> ApiResponse:
    """Hide the file; the engine takes its bytes away."""
    refuse_query(request)
    export_id = read_path(request, ExportPath).export_id
    version = expected_version(request)
    await write(
        request,
        lambda c: export_files.delete(c, actor_of(request), export_id, expected_version=version),
    )
    request.app.state.engine.wake()
    return empty_answer(204)


@operation(
    "GET",
    "/v1/exports/{export_id:str}/content",
    Contract(
        operation_id="download_export",
        scope="exports:create",
        reveals_costs=True,
        summary="Download an exported file, or a range of it",
        description="A download that broke is gone on with by `Range: bytes=N-` and `If-Range` "
        "with the ETag of the first answer. `Repr-Digest` is the SHA-256 of the whole file "
        "(RFC 9530).",
        tag=TAG,
        path=ExportPath,
        request_headers=(RANGE, IF_RANGE),
        conditional_get=True,
        problems=(409, 416),
        answers={
            200: Answer(
                description="The file",
                media_types=MEDIA_TYPES,
                headers=("Accept-Ranges", "Content-Disposition", "ETag", "Repr-Digest"),
            ),
            206: Answer(
                description="The range of the file",
                media_types=MEDIA_TYPES,
                headers=(
                    "Accept-Ranges",
                    "Content-Disposition",
                    "Content-Range",
                    "ETag",
                    "Repr-Digest",
                ),
            ),
        },
    ),
)
async def download_export(request: ApiRequest) -> Any:
    """Stream the bytes, part by part."""
    refuse_query(request)
    export_id = read_path(request, ExportPath).export_id
    file = await read(request, lambda c: export_files.stored_file(c, actor_of(request), export_id))
    etag = etag_of(file.sha256)
    if unchanged := not_modified(request, etag):
        return unchanged
    try:
        span = requested_span(request, file.num_bytes, etag)
    except RangeNotSatisfiableError as error:
        answer = answer_error(request, error)
        answer.headers["Content-Range"] = f"bytes */{file.num_bytes}"
        return answer
    first, stop = span or Span(0, file.num_bytes)
    if span is not None:
        partial = {"Content-Range": f"bytes {first}-{stop - 1}/{file.num_bytes}"}
    else:
        partial = {}
    parts: Iterator[bytes] = iter(())
    if not is_head(request):
        parts = export_files.content(database_of(request), file, first, stop)
    return Stream(
        parts_in_threads(parts, stall_s=settings_of(request).limits.stall_s),
        status_code=206 if span else 200,
        media_type=file.media_type,
        headers={**_headers(file, etag), **partial, "Content-Length": str(stop - first)},
    )


@operation(
    "GET",
    "/v1/exports/{export_id:str}/sidecar",
    Contract(
        operation_id="get_export_sidecar",
        scope="exports:create",
        reveals_costs=True,
        summary="Read what an exported file holds, and where it comes from",
        description="The query, the columns with their units, rows, bytes, SHA-256, the batches "
        "with their model versions and pricings. Keep it beside the file.",
        tag=TAG,
        path=ExportPath,
        conditional_get=True,
        problems=(409,),
        answers={200: Answer(description="The sidecar", body=Sidecar, headers=("ETag",))},
    ),
)
async def get_export_sidecar(request: ApiRequest) -> ApiResponse:
    """Answer with the sidecar."""
    refuse_query(request)
    export_id = read_path(request, ExportPath).export_id
    found = await read(request, lambda c: export_files.sidecar(c, actor_of(request), export_id))
    etag = etag_of(f"sidecar-{found.sha256}")
    return not_modified(request, etag) or json_answer(found, headers={"ETag": etag})


def _headers(file: StoredFile, etag: str) -> dict[str, str]:
    digest = base64.b64encode(bytes.fromhex(file.sha256)).decode()
    return {
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{file.file_name}"',
        "ETag": etag,
        "Repr-Digest": f"sha-256=:{digest}:",
    }


routes: list[HTTPRouteHandler] = [
    create_export,
    get_export,
    delete_export,
    download_export,
    get_export_sidecar,
]
