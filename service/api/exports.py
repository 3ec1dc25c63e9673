"""`/v1/exports`: results or a comparison as a file, streamed from one snapshot at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import anyio
import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from service.api import open_streams
from service.api.contract import Answer, ApiRequest, Contract, operation
from service.api.head_requests import is_head
from service.api.list_queries import in_utc
from service.api.parameters import read_query
from service.api.transactions import actor_of, database_of, in_thread, settings_of
from service.db.engine import Database
from service.jobs import exports
from service.jobs.actors import Actor
from service.jobs.export_documents import ComparisonExportQuery, ExportIn, ExportQuery
from service.jobs.export_files import file_name
from service.reports.export import EXPORTERS

TAG = "Exports"
ANSWERS = {
    200: Answer(
        description="The file",
        media_types=tuple(exporter.media_type for exporter in EXPORTERS.values()),
        headers=("Content-Disposition",),
    )
}
FORMATS = (
    "The same numbers in every format. Texts that a spreadsheet would run as a formula begin with "
    "an apostrophe in CSV. Without the scope costs:read the columns are the same, but costs are "
    "null and `cost_status` is withheld. Parquet and Arrow carry units, model versions, batches "
    "and the query. What is to be resumed, checked by a SHA-256 or kept with a sidecar is a file: "
    "`POST /v1/exports`."
)


@operation(
    "GET",
    "/v1/exports",
    Contract(
        operation_id="export_results",
        scope="exports:create",
        reveals_costs=True,
        summary="Export results as CSV, JSON Lines, Parquet or an Arrow stream",
        description="The same filters as the list of results; rows in the order of batches and "
        "points, or up to 1 000 000 of them by `order_by` (422 above that). " + FORMATS,
        tag=TAG,
        query=ExportQuery,
        problems=(404, 409, 422, 503),
        answers=ANSWERS,
    ),
)
async def export_results(request: ApiRequest) -> Any:
    """Stream the file."""
    query = read_query(request, ExportQuery)
    query = msgspec.structs.replace(
        query,
        created_after=in_utc("created_after", query.created_after),
        created_before=in_utc("created_before", query.created_before),
    )
    return await _streamed(request, exports.of_results(query))


@operation(
    "GET",
    "/v1/exports/comparison",
    Contract(
        operation_id="export_comparison",
        scope="exports:create",
        reveals_costs=True,
        summary="Export a comparison of two batches",
        description="Each row is a point that both batches have: its key, and of every compared "
        "column past, new, difference and relative; the cost of the loss likewise. " + FORMATS,
        tag=TAG,
        query=ComparisonExportQuery,
        problems=(404, 409, 422, 503),
        answers=ANSWERS,
    ),
)
async def export_comparison(request: ApiRequest) -> Any:
    """Stream the file."""
    query = read_query(request, ComparisonExportQuery)
    return await _streamed(request, exports.of_comparison(query))


async def _streamed(request: ApiRequest, query: ExportIn) -> Any:
    place = open_streams.take(request, comparison=query.comparison is not None)
    try:
        stack, parts = await in_thread(
            lambda: _open(database_of(request), actor_of(request), query)
        )
    except BaseException:
        place.close()
        raise
    # Given back last: the next stream must find the connection free.
    place.callback(stack.close)
    if is_head(request):
        parts = iter(())
    return Stream(
        parts_in_threads(parts, place.close, stall_s=settings_of(request).limits.stall_s),
        media_type=EXPORTERS[query.format].media_type,
        headers={"Content-Disposition": f'attachment; filename="{file_name(query)}"'},
    )


def _open(database: Database, actor: Actor, query: ExportIn) -> tuple[ExitStack, Iterator[bytes]]:
    """Open the snapshot and prepare the file; what is wrong with the query is raised here."""
    with ExitStack() as stack:
        connection = stack.enter_context(database.read())
        extract = exports.extract(connection, actor, query)
        return stack.pop_all(), extract.written(query)


async def parts_in_threads(
    parts: Iterator[bytes], close: Callable[[], None] = lambda: None, *, stall_s: float
) -> AsyncIterator[bytes]:
    """The parts, each made off the event loop; `close` is called whatever ends them.

    A caller who takes nothing for `stall_s` is cut off: the snapshot and the memory are not theirs
    to keep.
    """
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    try:
        while (part := await in_thread(lambda: next(parts, None))) is not None:
            watch = loop.call_later(stall_s, task.cancel) if task is not None else None
            try:
                yield part
            finally:
                if watch is not None:
                    watch.cancel()
    finally:
        # When the caller has gone, this task is canceled: the connection must go back all the same.
        with anyio.CancelScope(shield=True):
            await in_thread(close)


routes: list[HTTPRouteHandler] = [export_results, export_comparison]
