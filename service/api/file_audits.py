"""`/v1/overlap-audits/files`: whether communication is hidden, by traces and tables."""

from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.file_readings import of_files
from service.api.parameters import read_query
from service.api.transactions import caller_of
from service.api.upload_paths import FILE_AUDITS
from service.api.uploads import received_files
from service.calibration.findings import OverlapAudit
from service.calibration.options import CalibrationOptions
from service.jobs.calibration_work import audit


@operation(
    "POST",
    FILE_AUDITS,
    Contract(
        operation_id="audit_overlap_of_files",
        scope="calibrations:write",
        summary="Tell from traces whether communication is hidden",
        description="The files of a calibration, of which three steps are enough here: a usual "
        "profile of PyTorch holds two to six, too few to fit any spread to. The files are read as "
        "those of `POST /v1/calibrations`; nothing is stored.",
        tag="Calibrations",
        takes_files=True,
        query=CalibrationOptions,
        answers={200: Answer(description="Interval, verdict, experiments", body=OverlapAudit)},
    ),
)
async def audit_overlap_of_files(request: ApiRequest) -> ApiResponse:
    """Take the files, and have them read and audited."""
    options = read_query(request, CalibrationOptions)
    state = request.app.state
    with state.upload_slots.taken(caller_of(request)):
        async with received_files(request, state.spool) as files:
            found = await of_files(request, partial(audit, files, options))
    return json_answer(found)


routes: list[HTTPRouteHandler] = [audit_overlap_of_files]
