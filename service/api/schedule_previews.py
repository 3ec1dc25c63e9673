"""`/v1/schedule-previews`: when a schedule would come, while it is being written."""

from datetime import UTC, datetime
from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.list_queries import in_utc
from service.api.parameters import read_query
from service.api.schedules import TAG, OccurrenceQuery
from service.api.transactions import in_turn, settings_of
from service.jobs.schedule_previews import OccurrencePreviewIn, preview
from service.jobs.schedule_views import OccurrenceList


@operation(
    "POST",
    "/v1/schedule-previews",
    Contract(
        operation_id="preview_occurrences",
        scope="schedules:read",
        summary="Show when a schedule would come that is not stored",
        description="What `occurrences` answers of a stored schedule, of any expression and zone. "
        "Nothing is stored; the faults of both are those that the schedule would have.",
        tag=TAG,
        body=OccurrencePreviewIn,
        body_examples={"every night": {"cron": "30 2 * * *", "zone": "Europe/Paris"}},
        query=OccurrenceQuery,
        answers={200: Answer(description="The occurrences", body=OccurrenceList)},
    ),
)
async def preview_occurrences(request: ApiRequest) -> ApiResponse:
    """Answer with the next occurrences."""
    query = read_query(request, OccurrenceQuery)
    body = await read_body(request, OccurrencePreviewIn)
    answer = partial(
        preview,
        body,
        after=in_utc("after", query.after) or datetime.now(UTC),
        count=query.count,
        shortest_minutes=settings_of(request).limits.schedule_interval_minutes,
    )
    return json_answer(await in_turn(request, answer))


routes: list[HTTPRouteHandler] = [preview_occurrences]
