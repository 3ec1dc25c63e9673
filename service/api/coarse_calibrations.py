"""`/v1/coarse-calibrations`: what p50 and p95 of step times tell."""

from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.calibration_examples import COARSE_CALIBRATIONS
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.parameters import refuse_query
from service.api.transactions import in_turn
from service.calibration.coarse import StepQuantiles
from service.calibration.findings import Coarse
from service.jobs.coarse_calibrations import start_coarsely


@operation(
    "POST",
    "/v1/coarse-calibrations",
    Contract(
        operation_id="start_coarsely",
        scope="evaluations:run",
        summary="Start from p50 and p95 of step times",
        description="For those who have no timings by rank: every reading of the quantiles, all of "
        "their spread being each GPU's own or common to all, as a whole scenario that has exactly "
        "these quantiles, and the wide interval of the loss that they span. A GPU that is slow all "
        "the time is invisible in them, which the answer says. Nothing is stored.",
        tag="Calibrations",
        body=StepQuantiles,
        body_examples=COARSE_CALIBRATIONS,
        answers={200: Answer(description="The readings and what they leave open", body=Coarse)},
    ),
)
async def read_step_quantiles(request: ApiRequest) -> ApiResponse:
    """Read the quantiles of the body."""
    refuse_query(request)
    document = await read_body(request, StepQuantiles)
    return json_answer(await in_turn(request, partial(start_coarsely, document)))


routes: list[HTTPRouteHandler] = [read_step_quantiles]
