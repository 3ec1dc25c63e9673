"""`/v1/evaluations`: one scenario, answered at once."""

from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.examples import SCENARIO
from service.api.parameters import refuse_query
from service.api.transactions import actor_of, in_turn, read
from service.jobs import evaluations
from service.jobs.evaluations import EvaluationIn, EvaluationOut

# Up to here the draw takes less than a hop to a thread and back costs others.
INLINE_GPUS = 100_000


@operation(
    "POST",
    "/v1/evaluations",
    Contract(
        operation_id="evaluate_scenario",
        scope="evaluations:run",
        summary="Evaluate one scenario",
        description="Give either `scenario`, or `profile` with the defaults of a stored cluster. "
        "`result` holds expectations over all draws; `ranks` is one reproducible draw, decided by "
        "the scenario's `seed`. Nothing is stored.",
        tag="Evaluations",
        body=EvaluationIn,
        body_examples={
            "one slow GPU among 1 024": {"scenario": SCENARIO},
            "every step varies by 5 %": {
                "scenario": {
                    **SCENARIO,
                    "slow_groups": [],
                    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
                },
                "ranks_limit": 8,
            },
            "the same with the slow GPU replaced": {
                "scenario": SCENARIO,
                "overrides": {"slow_groups": []},
                "ranks_limit": 0,
            },
        },
        answers={200: Answer(description="The expected loss and one draw", body=EvaluationOut)},
    ),
)
async def evaluate_scenario(request: ApiRequest) -> ApiResponse:
    """Compute the scenario of the body."""
    refuse_query(request)
    document = await read_body(request, EvaluationIn)
    resolved = evaluations.resolve_inline(document)
    if resolved is None:
        actor = actor_of(request)
        resolved = await read(request, lambda c: evaluations.resolve_stored(c, actor, document))
    compute = partial(evaluations.answer, resolved)
    in_place = resolved.scenario.num_gpus <= INLINE_GPUS or not resolved.ranks_limit
    answered = compute() if in_place else await in_turn(request, compute)
    request.app.state.metrics.evaluations.inc()
    return json_answer(answered)


routes: list[HTTPRouteHandler] = [evaluate_scenario]
