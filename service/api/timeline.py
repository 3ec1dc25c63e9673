"""`/v1/evaluations/timeline`: one step of a pipeline, operation by operation."""

from functools import partial
from typing import Annotated, Literal

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.examples import TIMELINES
from service.api.parameters import read_query
from service.api.transactions import actor_of, in_turn, read
from service.jobs import timelines
from service.jobs.timelines import Asked, TimelineIn, TimelineOut
from service.reports.chrome_trace import ChromeTrace, chrome_trace, trace_file_name


class TimelineQuery(Struct, frozen=True, kw_only=True):
    """How the timeline is answered."""

    format: Annotated[
        Literal["json", "chrome_trace"],
        Meta(
            description="`chrome_trace`: a file in the Trace Event Format, which Perfetto "
            "(ui.perfetto.dev) and chrome://tracing open."
        ),
    ] = "json"


@operation(
    "POST",
    "/v1/evaluations/timeline",
    Contract(
        operation_id="draw_timeline",
        scope="evaluations:run",
        summary="Show a pipeline's step, operation by operation",
        description="What every stage of one replica does in one step, with start and end: at "
        "nominal speed, or the one step that the scenario's `seed` draws, with slow GPUs, "
        "variability and jitter. By default of the slowest replica. At most 20 000 operations are "
        "shown. In a Chrome trace a replica is a process and a stage a thread. Nothing is stored.",
        tag="Evaluations",
        query=TimelineQuery,
        body=TimelineIn,
        body_examples=TIMELINES,
        answers={
            200: Answer(
                description="The timeline, or the trace file",
                body=(TimelineOut, ChromeTrace),
                headers=("Content-Disposition",),
            )
        },
    ),
)
async def draw_timeline(request: ApiRequest) -> ApiResponse:
    """Draw the step of the body."""
    query = read_query(request, TimelineQuery)
    document = await read_body(request, TimelineIn)
    asked = timelines.ask_inline(document)
    if asked is None:
        actor = actor_of(request)
        asked = await read(request, lambda c: timelines.ask_stored(c, actor, document))
    answered = await in_turn(request, partial(_answer, asked, query))
    request.app.state.metrics.evaluations.inc()
    return answered


def _answer(asked: Asked, query: TimelineQuery) -> ApiResponse:
    found = timelines.answer(asked)
    if query.format == "json":
        return json_answer(found)
    named = f'attachment; filename="{trace_file_name(found)}"'
    return json_answer(chrome_trace(found), headers={"Content-Disposition": named})


routes: list[HTTPRouteHandler] = [draw_timeline]
