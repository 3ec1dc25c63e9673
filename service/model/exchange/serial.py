"""The communication of a step one after the other, nothing hidden: what the ideal step counts."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats, kept_with_columns
from service.model.exchange.collectives import exchange_of, half_exchange_of
from service.model.leaves import leaves

FSDP = 1 + leaves()["overlap.kind"].labels.index("fsdp")


class Serial(NamedTuple):
    """(points,) each, of one step.

    latency_ms, bandwidth_ms  their sum is the exchange; where has_parts is false it is all
                              bandwidth_ms
    compression_ms            beside it
    algorithm                 position in collectives.ALGORITHMS
    """

    latency_ms: Floats
    bandwidth_ms: Floats
    compression_ms: Floats
    has_parts: NDArray[np.bool_]
    algorithm: NDArray[np.int8]

    @property
    def ms(self) -> Floats:
        """(points,) all of it."""
        return self.latency_ms + self.bandwidth_ms + self.compression_ms


@kept_with_columns
def serial_of(columns: Columns) -> Serial:
    """An all-reduce of the whole message; sharded (FSDP) its gathers and scatters, layer by layer.

    Of L layers all are gathered for forward, all but the last again for backward, and all are
    scattered: 3 L - 1 halves of an all-reduce of 1/L of the message.
    """
    whole = exchange_of(columns)
    latency, bandwidth = whole.latency_ms, whole.bandwidth_ms
    algorithm, has_parts = whole.algorithm, whole.has_parts
    is_sharded = columns["overlap.kind"] == FSDP
    if is_sharded.any():
        half = half_exchange_of(columns)
        layers = columns["overlap.num_layers"]
        latency = np.where(is_sharded, (3 * layers - 1) * half.latency_ms, latency)
        bandwidth = np.where(is_sharded, (3 - 1 / layers) * half.bandwidth_ms, bandwidth)
        algorithm = np.where(is_sharded, half.algorithm, algorithm)
        has_parts = np.where(is_sharded, half.has_parts, has_parts)
    return Serial(latency, bandwidth, whole.compression_ms, has_parts, algorithm)
