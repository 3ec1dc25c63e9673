"""A coarse start from quantiles of step times; answered at once, nothing is stored."""

from service.calibration.coarse import StepQuantiles, coarse_start
from service.calibration.findings import Coarse
from service.calibration.refusals import TimingsRefusedError
from service.jobs.document_refusals import refused_document


def start_coarsely(observed: StepQuantiles) -> Coarse:
    """All readings; raises `InvalidError` with the fields that no run has."""
    try:
        return coarse_start(observed)
    except TimingsRefusedError as error:
        raise refused_document(error) from None
