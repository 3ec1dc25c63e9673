"""`/v1/scenario-batches/{batch_id}/publication`: a batch as rows of an SQL table, for BI tools."""

from litestar.handlers import HTTPRouteHandler

from service.api.answers import empty_answer, json_answer
from service.api.batch_paths import BatchPath
from service.api.concurrency import etag_of, expected_version, not_modified
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.parameters import read_path, refuse_query
from service.api.transactions import actor_of, read, write
from service.jobs import publications
from service.jobs.publications import PENDING, PublicationOut

PATH = "/v1/scenario-batches/{batch_id:str}/publication"
TAG = "Results"


@operation(
    "POST",
    PATH,
    Contract(
        operation_id="publish_batch",
        scope="batches:write",
        summary="Publish a batch for BI tools (PostgreSQL only)",
        description="Its computed points become rows of `bi.result_point`, a partition of their "
        "own: one typed column for each input and output, with unit and meaning as the column's "
        "comment, null where there is no number. Readers see all rows or none. Repeating it is "
        "harmless; after a failure it tries again. Answers 409 on SQLite and for a batch that "
        "has not ended.",
        tag=TAG,
        path=BatchPath,
        problems=(409,),
        answers={
            200: Answer(description="It is published", body=PublicationOut, headers=("ETag",)),
            202: Answer(
                description="It will be published",
                body=PublicationOut,
                headers=("Location", "ETag", "Retry-After"),
            ),
        },
    ),
)
async def publish_batch(request: ApiRequest) -> ApiResponse:
    """Have the batch published."""
    refuse_query(request)
    batch_id = read_path(request, BatchPath).batch_id
    found = await write(request, lambda c: publications.publish(c, actor_of(request), batch_id))
    etag = {"ETag": etag_of(found.version)}
    if found.state not in PENDING:
        return json_answer(found, headers=etag)
    request.app.state.engine.wake()
    location = f"/v1/scenario-batches/{batch_id}/publication"
    return json_answer(
        found, status=202, headers={"Location": location, "Retry-After": "1", **etag}
    )


@operation(
    "GET",
    PATH,
    Contract(
        operation_id="get_publication",
        scope="batches:read",
        summary="Read how far the publication of a batch is",
        tag=TAG,
        path=BatchPath,
        conditional_get=True,
        answers={
            200: Answer(description="The publication", body=PublicationOut, headers=("ETag",))
        },
    ),
)
async def get_publication(request: ApiRequest) -> ApiResponse:
    """Answer with the publication."""
    refuse_query(request)
    batch_id = read_path(request, BatchPath).batch_id
    found = await read(request, lambda c: publications.get(c, actor_of(request), batch_id))
    etag = etag_of(found.version)
    return not_modified(request, etag) or json_answer(found, headers={"ETag": etag})


@operation(
    "DELETE",
    PATH,
    Contract(
        operation_id="unpublish_batch",
        scope="batches:write",
        summary="Drop the published rows of a batch; the batch stays",
        tag=TAG,
        path=BatchPath,
        needs_if_match=True,
        answers={204: Answer(description="It is published no longer")},
    ),
)
async def unpublish_batch(request: ApiRequest) -> ApiResponse:
    """Take the publication back; the engine drops the rows."""
    refuse_query(request)
    batch_id = read_path(request, BatchPath).batch_id
    version = expected_version(request)
    await write(
        request,
        lambda c: publications.unpublish(c, actor_of(request), batch_id, expected_version=version),
    )
    request.app.state.engine.wake()
    return empty_answer(204)


routes: list[HTTPRouteHandler] = [publish_batch, get_publication, unpublish_batch]
