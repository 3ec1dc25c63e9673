"""`/v1/scenario-batches/{id}/retries`: compute what a batch has left."""

from litestar.handlers import HTTPRouteHandler

from service.api.accepted_batches import ACCEPTED, ENDED_HEADERS, accepted, when_preferred
from service.api.batch_paths import BatchPath
from service.api.bodies import read_optional_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.idempotency import Created, create_once
from service.api.parameters import read_path, refuse_query
from service.api.preferences import PREFER
from service.api.transactions import actor_of, settings_of
from service.db.engine import Connection
from service.jobs import batch_retries
from service.jobs.batch_documents import RetryIn
from service.jobs.finished_batches import FinishedBatch

TAG = "Scenario batches"


@operation(
    "POST",
    "/v1/scenario-batches/{batch_id:str}/retries",
    Contract(
        operation_id="retry_batch",
        scope="batches:write",
        reveals_costs=True,
        summary="Compute the items that a batch has left",
        description="A new batch of those items that were canceled, expired or failed with the "
        "batch, or of which a chunk could not be computed; `retry_of` names the first, which "
        "stays as it is. Without any such item the answer is 409 `nothing-to-retry`: a point that "
        "breaks a rule breaks it again.",
        tag=TAG,
        path=BatchPath,
        body=RetryIn,
        body_examples={"before all others": {"priority": 1}},
        needs_body=False,
        request_headers=(PREFER,),
        idempotent=True,
        problems=(409, 503),
        answers={
            202: ACCEPTED,
            200: Answer(description="It has ended", body=FinishedBatch, headers=ENDED_HEADERS),
        },
    ),
)
async def retry_batch(request: ApiRequest) -> ApiResponse:
    """Store the retry and start it."""
    refuse_query(request)
    batch_id = read_path(request, BatchPath).batch_id
    body = await read_optional_body(request, RetryIn)
    actor, limits = actor_of(request), settings_of(request).limits

    def create(connection: Connection) -> Created:
        return accepted(batch_retries.retry(connection, actor, batch_id, body, limits))

    return await when_preferred(request, await create_once(request, create))


routes: list[HTTPRouteHandler] = [retry_batch]
