"""`/v1/evaluations/curve`: the loss along one axis, such as the number of GPUs."""

from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.examples import CURVES
from service.api.parameters import refuse_query
from service.api.transactions import actor_of, in_turn, read
from service.jobs import curves
from service.jobs.curve_documents import CurveIn, CurveOut


@operation(
    "POST",
    "/v1/evaluations/curve",
    Contract(
        operation_id="evaluate_curve",
        scope="evaluations:run",
        summary="Evaluate one scenario along an axis",
        description="The expected loss at each value of one axis, by default at the powers of two "
        "of GPUs from 8 to 131 072 and at the scenario's own number, and the one step that its "
        "`seed` draws there: that of `ranks` of `POST /v1/evaluations`, where a GPU keeps its draw "
        "however many others there are. A value that breaks a rule fails alone, and so "
        "does one that would take too long beside the quicker ones. Nothing is stored.",
        tag="Evaluations",
        body=CurveIn,
        body_examples=CURVES,
        answers={200: Answer(description="A row for each value of the axis", body=CurveOut)},
    ),
)
async def evaluate_curve(request: ApiRequest) -> ApiResponse:
    """Compute the curve of the body."""
    refuse_query(request)
    document = await read_body(request, CurveIn)
    asked = curves.ask_inline(document)
    if asked is None:
        actor = actor_of(request)
        asked = await read(request, lambda c: curves.ask_stored(c, actor, document))
    answered = await in_turn(request, partial(curves.answer, asked))
    request.app.state.metrics.evaluations.inc()
    return json_answer(answered)


routes: list[HTTPRouteHandler] = [evaluate_curve]
