"""`/v1/link-presets` and `/v1/collective-measurements`: what a communication is made of."""

from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.examples import MEASUREMENTS
from service.api.parameters import refuse_query
from service.api.transactions import in_turn
from service.jobs.communication import link_presets, read_measurement
from service.jobs.communication_documents import LinkPresetList, MeasurementIn, MeasurementOut

TAG = "Communication"


@operation(
    "GET",
    "/v1/link-presets",
    Contract(
        operation_id="list_link_presets",
        scope="service:read",
        summary="Links to choose from",
        description="Dated values of common links, each with its source and how well it is known: "
        "`measured`, `published` or `assumed`. A scenario names one as `communication.link.preset` "
        "and may replace any of its values. A preset never changes: newer values get a newer name.",
        tag=TAG,
        answers={200: Answer(description="All of them", body=LinkPresetList)},
    ),
)
async def list_link_presets(request: ApiRequest) -> ApiResponse:
    """Answer with the table of presets."""
    refuse_query(request)
    return json_answer(link_presets())


@operation(
    "POST",
    "/v1/collective-measurements",
    Contract(
        operation_id="read_collective_measurement",
        scope="evaluations:run",
        summary="Read an output of nccl-tests",
        description="From what nccl-tests' or rccl-tests' `all_reduce_perf` prints to a "
        "`communication` of kind `measured`: add its message and put it into a scenario. Every "
        "row is checked against itself; other units, other collectives, wrong elements and lines "
        "that are cut off are refused with the line and the reason. Nothing is stored.",
        tag=TAG,
        body=MeasurementIn,
        body_examples=MEASUREMENTS,
        answers={200: Answer(description="The curve", body=MeasurementOut)},
    ),
)
async def read_collective_measurement(request: ApiRequest) -> ApiResponse:
    """Read the text of the body."""
    refuse_query(request)
    document = await read_body(request, MeasurementIn)
    return json_answer(await in_turn(request, partial(read_measurement, document)))


routes: list[HTTPRouteHandler] = [list_link_presets, read_collective_measurement]
