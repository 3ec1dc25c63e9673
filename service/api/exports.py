"""`/v1/exports`: results as a file, streamed from one snapshot in bounded memory."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from service.api.contract import Answer, ApiRequest, Contract, operation
from service.api.list_queries import in_utc
from service.api.parameters import read_query
from service.api.transactions import actor_of, database_of, in_thread
from service.db.engine import Database
from service.jobs import exports
from service.jobs.actors import Actor
from service.jobs.exports import ExportQuery
from service.reports.export import EXPORTERS

TAG = "Results"


@operation(
    "GET",
    "/v1/exports",
    Contract(
        operation_id="export_results",
        summary="Export results as CSV or JSON Lines",
        description="The same filters as the list of results; rows in the order of batches and "
        "points, the same numbers in both formats. Texts that a spreadsheet would run as a "
        "formula begin with an apostrophe in CSV.",
        tag=TAG,
        query=ExportQuery,
        problems=(404, 409),
        answers={
            200: Answer(
                description="The file",
                media_types=tuple(exporter.media_type for exporter in EXPORTERS.values()),
                headers=("Content-Disposition",),
            )
        },
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
    exporter = EXPORTERS[query.format]
    opened = await in_thread(lambda: _open(database_of(request), actor_of(request), query))
    return Stream(
        _parts(*opened),
        media_type=exporter.media_type,
        headers={
            "Content-Disposition": f'attachment; filename="trainard-results.{exporter.extension}"'
        },
    )


def _open(
    database: Database, actor: Actor, query: ExportQuery
) -> tuple[ExitStack, Iterator[bytes]]:
    """Open the snapshot and prepare the file; what is wrong with the query is raised here."""
    with ExitStack() as stack:
        connection = stack.enter_context(database.read())
        fields, chunks = exports.export(connection, actor, query)
        return stack.pop_all(), EXPORTERS[query.format].write(fields, chunks)


async def _parts(stack: ExitStack, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    try:
        while (part := await in_thread(lambda: next(parts, None))) is not None:
            yield part
    finally:
        await in_thread(stack.close)


routes: list[HTTPRouteHandler] = [export_results]
