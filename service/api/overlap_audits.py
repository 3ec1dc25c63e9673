"""`/v1/overlap-audits`: whether communication is hidden, from a step's phases."""

from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.calibration_examples import OVERLAP_AUDITS
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.parameters import refuse_query
from service.api.transactions import in_turn
from service.calibration.findings import OverlapAudit
from service.calibration.step_arithmetic import StepArithmetic
from service.jobs.overlap_audits import audit_overlap


@operation(
    "POST",
    "/v1/overlap-audits",
    Contract(
        operation_id="audit_overlap",
        scope="evaluations:run",
        summary="Audit overlap by step arithmetic",
        description="How much of the communication a step's phases allow to be hidden behind "
        "compute: an interval that holds the truth whatever waiting, optimizer, prefetching and "
        "contention take, the verdict `overlaps`, `does_not_overlap` or `cannot_tell`, and the "
        "measurements that would settle it, the most useful one first. Step times alone often "
        "cannot tell; a run without synchronisation together with the same collectives alone can. "
        "Nothing is stored.",
        tag="Calibrations",
        body=StepArithmetic,
        body_examples=OVERLAP_AUDITS,
        answers={200: Answer(description="The audit", body=OverlapAudit)},
    ),
)
async def audit_step_arithmetic(request: ApiRequest) -> ApiResponse:
    """Audit the body."""
    refuse_query(request)
    document = await read_body(request, StepArithmetic)
    return json_answer(await in_turn(request, partial(audit_overlap, document)))


routes: list[HTTPRouteHandler] = [audit_step_arithmetic]
