"""Links to choose from, and measured collectives as a scenario's communication."""

from service.errors import FieldFault, InvalidError
from service.jobs.batch_documents import Notice
from service.jobs.communication_documents import LinkPresetList, MeasurementIn, MeasurementOut
from service.model.exchange.nccl_lines import UnreadableOutputError
from service.model.exchange.nccl_tests import read_nccl_tests
from service.model.exchange.presets import LINK_PRESETS

TEXT = "/text"


def link_presets() -> LinkPresetList:
    """All dated links."""
    return LinkPresetList(items=list(LINK_PRESETS))


def read_measurement(document: MeasurementIn) -> MeasurementOut:
    """The curve of an output of nccl-tests; raises `InvalidError` with the line and the reason."""
    try:
        found = read_nccl_tests(document.text, document.column)
    except UnreadableOutputError as error:
        fault = FieldFault(pointer=TEXT, code="unreadable_measurement", detail=str(error))
        raise InvalidError(f"the measurement cannot be used: {error}", errors=[fault]) from None
    return MeasurementOut(
        communication=found.communication,
        column=document.column,
        num_ranks=found.num_ranks,
        num_rows=found.num_rows,
        busbw_gigabytes_per_s=list(found.busbw_gigabytes_per_s),
        largest_busbw_gigabytes_per_s=max(found.busbw_gigabytes_per_s),
        warnings=[
            Notice(pointer=TEXT, code="measurement_in_part", detail=warning)
            for warning in found.warnings
        ],
    )
