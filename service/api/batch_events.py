"""`/v1/scenario-batches/{id}/events`: progress as it happens (server-sent events)."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from service.api.answers import empty_answer
from service.api.batch_paths import BatchPath
from service.api.batch_watch import BatchWatch
from service.api.contract import (
    EVENT_STREAM,
    Answer,
    ApiRequest,
    Contract,
    Events,
    RequestHeader,
    operation,
)
from service.api.parameters import read_path, refuse_query
from service.api.transactions import actor_of, read, settings_of
from service.errors import UnavailableError
from service.jobs import batches
from service.jobs.batch_documents import TERMINAL_STATES, BatchOut

TAG = "Scenario batches"
HEARTBEAT_S = 15.0
RECONNECT_MS = 2_000
HEADERS = {
    "Cache-Control": "no-cache",
    # Reverse proxies would hold the events back to fill their buffers.
    "X-Accel-Buffering": "no",
}

LAST_EVENT_ID = RequestHeader(
    name="Last-Event-ID",
    description="Id of the last event that was received: only newer ones are sent.",
    pattern=r"^[0-9]{1,18}$",
    example="7",
)


@operation(
    "GET",
    "/v1/scenario-batches/{batch_id:str}/events",
    Contract(
        operation_id="watch_batch",
        scope="batches:read",
        summary="Follow a batch as it runs (server-sent events)",
        description="`event: progress` carries the batch as JSON in `data`, at once and then "
        "after every change, with the batch's `version` as `id`; `event: ended` carries the ended "
        "batch and is the last one. A connection that breaks is taken up again with "
        "`Last-Event-ID`, as EventSource does by itself; when the end was received already the "
        "answer is 204. Comments come every 15 s while nothing changes.",
        tag=TAG,
        path=BatchPath,
        request_headers=(LAST_EVENT_ID,),
        answers={
            200: Answer(
                description="The events, until the batch has ended",
                events=Events(names=("progress", "ended"), data=BatchOut),
                headers=("Cache-Control",),
            ),
            204: Answer(description="The batch has ended, and its last event was received"),
        },
    ),
)
async def watch_batch(request: ApiRequest) -> Any:
    """Stream the events."""
    refuse_query(request)
    batch_id = read_path(request, BatchPath).batch_id
    batch = await read(request, lambda c: batches.get(c, actor_of(request), batch_id))
    received = int(request.headers.get("last-event-id", "-1"))
    if received > batch.version:
        # None of ours: everything is new to this reader.
        received = -1
    if batch.state in TERMINAL_STATES and received == batch.version:
        return empty_answer(204)
    watch: BatchWatch = request.app.state.batch_watch
    limit = settings_of(request).limits.event_streams
    if watch.num_streams >= limit:
        raise UnavailableError(
            f"{watch.num_streams} event streams are open, the limit is {limit}",
            problem="too-many-streams",
        )
    events = _events(watch, batch_id, received)
    # Begun here, so that it is counted before the next request looks.
    opening = await anext(events)
    return Stream(_joined(opening, events), media_type=EVENT_STREAM, headers=HEADERS)


async def _joined(opening: bytes, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield opening
    async for event in events:
        yield event


async def _events(watch: BatchWatch, batch_id: UUID, received: int) -> AsyncIterator[bytes]:
    watch.num_streams += 1
    try:
        with watch.channel(batch_id) as channel:
            # A field of the first event: by itself it would be an event without data to some.
            yield f"retry: {RECONNECT_MS}\n".encode()
            while not watch.is_stopping and not channel.is_gone:
                if channel.version > received:
                    received = channel.version
                    kind = "ended" if channel.has_ended else "progress"
                    yield b"id: %d\nevent: %s\ndata: %s\n\n" % (
                        received,
                        kind.encode(),
                        channel.body,
                    )
                if channel.has_ended:
                    return
                if channel.version <= received and not await channel.wait(HEARTBEAT_S):
                    yield b": nothing new\n\n"
    finally:
        watch.num_streams -= 1


routes: list[HTTPRouteHandler] = [watch_batch]
