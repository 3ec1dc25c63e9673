"""Micro-batches whose activations a rank keeps at once."""

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.operations import BACKWARD_WEIGHT, FORWARD, FORWARD_BACKWARD
from service.model.pipeline.plan import Plan


def peak_microbatches_in_flight(plan: Plan) -> Floats:
    """(stages,) kept from the forward to the backward or the input gradient, 1/V for each chunk.

    It depends on the order of each rank only, not on times. A forward_backward keeps both. What is
    kept from the input gradient to the weight gradient is not counted. Dualpipe counts the
    micro-batches of both directions.
    """
    rank_order = np.argsort(plan.stage, kind="stable")
    kind = plan.kind[rank_order]
    goes_forward = (kind == FORWARD) | (kind == FORWARD_BACKWARD)
    goes_back = (kind != FORWARD) & (kind != BACKWARD_WEIGHT)
    # every rank ends with nothing in flight, so one running sum serves all of them
    held = np.cumsum(goes_forward.astype(np.int64) - goes_back) + goes_back
    starts = np.searchsorted(plan.stage[rank_order], np.arange(plan.stages))
    peaks: Floats = np.maximum.reduceat(held, starts) / plan.chunks
    return peaks
