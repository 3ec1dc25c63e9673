"""`/v1/evaluations/solve`: the extreme value of an input that keeps a promise about a result."""

from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.examples import QUESTIONS
from service.api.parameters import refuse_query
from service.api.transactions import actor_of, in_turn, read
from service.jobs import solve
from service.jobs.solve_documents import SolveIn, SolveOut


@operation(
    "POST",
    "/v1/evaluations/solve",
    Contract(
        operation_id="solve_scenario",
        scope="evaluations:run",
        summary="Find the input that keeps a promise",
        description="The `largest` or `smallest` value of one number of a scenario (`unknown`) for "
        "which an output column is at least, or at most, a number (`target`). Whole numbers are "
        "exact: the answer keeps the promise, its neighbor does not, and both were evaluated; real "
        "numbers are so up to `tolerance`. Values that break a rule are out of the range, and "
        "`range_end` says which. That no value keeps the promise is an answer too, with the value "
        "that comes nearest. So are found, for example, the bandwidth for 95 % utilization, the "
        "fewest local steps for a target, the staleness that hides a delay, the largest round "
        "trip, the fewest micro-batches of a pipeline, or its most stages. Nothing is stored.",
        tag="Evaluations",
        body=SolveIn,
        body_examples=QUESTIONS,
        answers={200: Answer(description="The value, or the nearest one", body=SolveOut)},
    ),
)
async def solve_scenario(request: ApiRequest) -> ApiResponse:
    """Answer the question of the body."""
    refuse_query(request)
    document = await read_body(request, SolveIn)
    asked = solve.ask_inline(document)
    if asked is None:
        actor = actor_of(request)
        asked = await read(request, lambda c: solve.ask_stored(c, actor, document))
    answered = await in_turn(request, partial(solve.answer_question, asked))
    request.app.state.metrics.evaluations.inc()
    return json_answer(answered)


routes: list[HTTPRouteHandler] = [solve_scenario]
