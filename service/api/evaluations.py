"""`/v1/evaluations`: one scenario, answered at once."""

from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.examples import EVALUATIONS
from service.api.parameters import refuse_query
from service.api.transactions import actor_of, in_turn, read, shows_no_costs
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
        "the scenario's `seed`. `sensitivity`, `model_spread` and `independent_ranks` are answered "
        "when asked for; `currency` asks for money, and `price_per_gpu_hour` makes it of a typed "
        "price: `costs` holds that of the loss of the window, and of the extra work of a job of "
        "`total_steps`. `leave_out` answers sooner: what it names is null, all else the same. "
        "Nothing is stored.",
        tag="Evaluations",
        body=EvaluationIn,
        reveals_costs=True,
        body_examples=EVALUATIONS,
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
    if not document.asks_for_money:
        shows_no_costs(request)
    compute = partial(evaluations.answer, resolved)
    small = resolved.scenario.num_gpus <= INLINE_GPUS or not document.ranks_limit
    if small and resolved.is_quick:
        answered = compute()
    else:
        answered = await in_turn(request, compute, is_brief=resolved.is_brief)
    request.app.state.metrics.evaluations.inc()
    return json_answer(answered)


routes: list[HTTPRouteHandler] = [evaluate_scenario]
