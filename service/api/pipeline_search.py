"""`/v1/evaluations/pipeline-search`: which pipeline does a job with the least loss."""

from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.examples import PIPELINE_SEARCHES
from service.api.parameters import refuse_query
from service.api.transactions import actor_of, in_turn, read, shows_no_costs
from service.jobs import pipeline_search
from service.jobs.pipeline_search_documents import PipelineSearchIn, PipelineSearchOut


@operation(
    "POST",
    "/v1/evaluations/pipeline-search",
    Contract(
        operation_id="search_pipelines",
        scope="evaluations:run",
        reveals_costs=True,
        summary="Search the pipeline that loses least",
        description="Tries stages P, micro-batches M, chunks V and schedules in the place of the "
        "scenario's, for the same job on the same GPUs: with P' stages there are N / (P' x "
        "tensor_parallel_size) replicas, the global batch, the model and the nominal compute of a "
        "GPU stay. What a GPU may hold is bounded by micro-batches in flight, by activations or by "
        "parameters, the latter two relative to the scenario. Each is a whole evaluation of the "
        "scenario with its `overrides`; ranked by GPU-hours lost over the window, at the "
        "scenario's own ideal step. What is left out is counted with the reason. With `currency`, "
        "and a GPU type from `profile` or `pricing`, dated rates give money; without the scope "
        "costs:read it is withheld. `price_per_gpu_hour` gives money of a typed price instead, to "
        "everybody. Nothing is stored.",
        tag="Evaluations",
        body=PipelineSearchIn,
        body_examples=PIPELINE_SEARCHES,
        answers={
            200: Answer(description="The pipelines, the least lost first", body=PipelineSearchOut)
        },
    ),
)
async def search_pipelines(request: ApiRequest) -> ApiResponse:
    """Search for the scenario of the body."""
    refuse_query(request)
    document = await read_body(request, PipelineSearchIn)
    if not document.asks_for_money:
        shows_no_costs(request)
    resolved = pipeline_search.resolve_inline(document)
    if resolved is None:
        actor = actor_of(request)
        resolved = await read(request, lambda c: pipeline_search.resolve_stored(c, actor, document))
    answered = await in_turn(request, partial(pipeline_search.answer, resolved))
    request.app.state.metrics.evaluations.inc()
    return json_answer(answered)


routes: list[HTTPRouteHandler] = [search_pipelines]
