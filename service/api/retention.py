"""`/v1/retention`: how long everything is kept, and what would go now."""

from datetime import UTC, datetime

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.parameters import refuse_query
from service.api.transactions import actor_of, read, settings_of
from service.jobs import retention
from service.jobs.retention import RetentionOut


@operation(
    "GET",
    "/v1/retention",
    Contract(
        operation_id="read_retention",
        scope="audit:read",
        summary="Read how long everything is kept, and what would go now",
        description="Results are kept for ever unless the installation says otherwise. Counts and "
        "bytes are of the team's own things; nothing is deleted to find out.",
        tag="Service",
        answers={200: Answer(description="The policies", body=RetentionOut)},
    ),
)
async def read_retention(request: ApiRequest) -> ApiResponse:
    """Answer with the policies."""
    refuse_query(request)
    settings, now, team_id = settings_of(request), datetime.now(UTC), actor_of(request).team_id
    return json_answer(await read(request, lambda c: retention.policies(c, settings, now, team_id)))


routes: list[HTTPRouteHandler] = [read_retention]
