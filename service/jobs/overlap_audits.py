"""Whether communication is hidden, from a step's phases; answered at once, nothing is stored."""

from service.calibration.findings import OverlapAudit
from service.calibration.overlap_arithmetic import audit_arithmetic
from service.calibration.refusals import TimingsRefusedError
from service.calibration.step_arithmetic import StepArithmetic
from service.jobs.document_refusals import refused_document


def audit_overlap(observed: StepArithmetic) -> OverlapAudit:
    """The audit; raises `InvalidError` with the fields that no step has."""
    try:
        return audit_arithmetic(observed)
    except TimingsRefusedError as error:
        raise refused_document(error) from None
