"""Refusals of the calibration room about a document that was asked about, rather than files."""

from service.calibration.refusals import TimingsRefusedError
from service.errors import FieldFault, InvalidError


def refused_document(error: TimingsRefusedError) -> InvalidError:
    """Every reason at the field that it is about."""
    faults = [
        FieldFault(
            pointer="" if fault.field is None else f"/{fault.field}",
            code=fault.code,
            detail=fault.detail,
        )
        for fault in error.faults
    ]
    return InvalidError(str(error), problem="refused-timings", errors=faults)
