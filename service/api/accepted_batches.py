"""The answer to a batch that was accepted: at once, or when it has ended."""

from uuid import UUID

from service.api.answers import json_answer
from service.api.batch_watch import BatchWatch
from service.api.concurrency import etag_of
from service.api.contract import Answer, ApiRequest, ApiResponse, HeaderName
from service.api.idempotency import Created
from service.api.preferences import preferred_wait_s
from service.api.transactions import actor_of, read
from service.errors import NotFoundError
from service.jobs import batches, finished_batches
from service.jobs.batch_documents import TERMINAL_STATES, BatchOut

ACCEPTED = Answer(
    description="Accepted",
    body=BatchOut,
    headers=("Location", "ETag", "Preference-Applied", "Retry-After"),
)
ENDED_HEADERS: tuple[HeaderName, ...] = ("Location", "ETag", "Preference-Applied")


def accepted(batch: BatchOut) -> Created:
    """What a use case that stored a batch is answered with."""
    headers = {
        "Location": f"/v1/scenario-batches/{batch.id}",
        "ETag": etag_of(batch.version),
        "Retry-After": "1",
    }
    return Created(document=batch, status=202, headers=headers)


async def when_preferred(request: ApiRequest, answer: ApiResponse) -> ApiResponse:
    """Start the accepted batch, and answer as `Prefer: wait` asks.

    With it: 200 and the first results if the batch ends in time, else 202 with the batch as it is
    by then. Also the repetition of a request (Idempotency-Key) waits.
    """
    batch_id = UUID(answer.headers["Location"].rsplit("/", 1)[1])
    request.app.state.engine.wake()
    wait_s = preferred_wait_s(request)
    if wait_s is None:
        return answer
    watch: BatchWatch = request.app.state.batch_watch
    await watch.wait_for_end(batch_id, within_s=wait_s)
    headers = {**answer.headers, "Preference-Applied": f"wait={wait_s}"}
    try:
        batch = await read(request, lambda c: batches.get(c, actor_of(request), batch_id))
        headers["ETag"] = etag_of(batch.version)
        if batch.state not in TERMINAL_STATES:
            return json_answer(batch, status=202, headers=headers)
        del headers["Retry-After"]
        finished = await read(
            request, lambda c: finished_batches.read_finished(c, actor_of(request), batch_id)
        )
    except NotFoundError:
        # An old key was repeated, and its batch is deleted: what was answered then still holds.
        return answer
    return json_answer(finished, headers=headers)
