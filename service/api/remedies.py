"""`/v1/evaluations/remedies`: what can be done about the loss of one scenario."""

from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.examples import LINKED, PIPED, SCENARIO
from service.api.parameters import refuse_query
from service.api.transactions import actor_of, in_turn, read, shows_no_costs
from service.jobs import remedies
from service.jobs.remedy_documents import RemediesIn, RemediesOut


@operation(
    "POST",
    "/v1/evaluations/remedies",
    Contract(
        operation_id="evaluate_remedies",
        scope="evaluations:run",
        reveals_costs=True,
        summary="Rank what can be done about a loss",
        description="Each remedy is a whole evaluation of the scenario with the remedy's "
        "`overrides`, and gives back the difference of the losses. Effective are the GPU-hours "
        "that the steps done would take at the original ideal step, lost is what is held beyond "
        "them: so hot spares and backup workers pay for themselves, and evicted GPUs are no longer "
        "held. Local steps and staleness gain speed and may need more steps for the same progress; "
        "none are assumed: `break_even_extra_steps_fraction` says how many would eat the gain, "
        "`extra_steps_fraction` of the request takes your own. Remedies of a pipeline do the same "
        "job on the same GPUs with other micro-batches, chunks, schedules or stages, and say what "
        "a GPU then holds in memory. With `currency`, and a GPU type "
        "from `profile` or `pricing`, dated rates give money; without the scope costs:read it is "
        "withheld. `price_per_gpu_hour` gives money of a typed price instead, to everybody. "
        "Nothing is stored.",
        tag="Evaluations",
        body=RemediesIn,
        body_examples={
            "one slow GPU among 1 024": {"scenario": SCENARIO},
            "what would help where gradients take long": {
                "scenario": LINKED,
                "remedies": [
                    {"kind": "overlap_buckets", "num_buckets": [8, 25]},
                    {"kind": "local_steps", "steps": [10, 100], "extra_steps_fraction": 0.02},
                    {"kind": "delayed_update"},
                    {
                        "kind": "hierarchical_collective",
                        "intra_link": {"latency_us": 1, "bandwidth_gigabytes_per_s": 450},
                    },
                    {"kind": "compress_gradients", "compression_ratios": [4], "compression_ms": 5},
                ],
            },
            "what would help a pipeline with few micro-batches": {
                "scenario": PIPED,
                "remedies": [
                    {"kind": "more_microbatches", "microbatches": [8, 16, 32]},
                    {"kind": "interleave_stages", "chunks_per_stage": [2, 4]},
                    {"kind": "change_schedule"},
                    {"kind": "fewer_stages", "stages": [4, 2]},
                ],
            },
            "how many hot spares pay": {
                "scenario": {
                    **SCENARIO,
                    "slow_groups": [],
                    "variability": {"persistent": {"kind": "lognormal", "cv": 0.03}},
                },
                "remedies": [
                    {"kind": "hot_spares", "counts": [1, 2, 4, 8]},
                    {"kind": "evict_worst", "counts": [1, 2, 4, 8]},
                    {"kind": "rebalance_work"},
                ],
                "pricing": {"gpu_type": "H100-SXM"},
                "currency": "EUR",
            },
        },
        answers={200: Answer(description="The remedies, the best one first", body=RemediesOut)},
    ),
)
async def evaluate_remedies(request: ApiRequest) -> ApiResponse:
    """Evaluate the scenario of the body and its remedies."""
    refuse_query(request)
    document = await read_body(request, RemediesIn)
    if not document.asks_for_money:
        shows_no_costs(request)
    resolved = remedies.resolve_inline(document)
    if resolved is None:
        actor = actor_of(request)
        resolved = await read(request, lambda c: remedies.resolve_stored(c, actor, document))
    answered = await in_turn(request, partial(remedies.answer, resolved))
    request.app.state.metrics.evaluations.inc()
    return json_answer(answered)


routes: list[HTTPRouteHandler] = [evaluate_remedies]
