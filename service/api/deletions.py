"""`DELETE /v1/scenario-batches/{batch_id}`: gone for every reader at once."""

from litestar.handlers import HTTPRouteHandler

from service.api.answers import empty_answer
from service.api.batch_paths import BatchPath
from service.api.batches import TAG
from service.api.concurrency import expected_version
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.parameters import read_path, refuse_query
from service.api.transactions import actor_of, write
from service.jobs import deletions


@operation(
    "DELETE",
    "/v1/scenario-batches/{batch_id:str}",
    Contract(
        operation_id="delete_batch",
        scope="batches:write",
        summary="Delete a batch that has ended",
        description="It is gone from lists, results, comparisons, histories, exports and "
        "repricings with this answer; its rows, and what was published of it, are taken away in "
        "the background. Files that were exported from it stay. A batch that has not ended "
        "answers 409: cancel it first; and so does that of a run which a schedule names as its "
        "`baseline`: name another one first.",
        tag=TAG,
        path=BatchPath,
        needs_if_match=True,
        problems=(409,),
        answers={204: Answer(description="It is deleted")},
    ),
)
async def delete_batch(request: ApiRequest) -> ApiResponse:
    """Hide the batch; the engine takes its rows away."""
    refuse_query(request)
    batch_id = read_path(request, BatchPath).batch_id
    version = expected_version(request)
    await write(
        request,
        lambda c: deletions.delete_batch(c, actor_of(request), batch_id, expected_version=version),
    )
    request.app.state.engine.wake()
    return empty_answer(204)


routes: list[HTTPRouteHandler] = [delete_batch]
