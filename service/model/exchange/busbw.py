"""How nccl-tests turns the bandwidth of a collective into that of the wires.

Source: nccl-tests, doc/PERFORMANCE.md (commit a0b82b2): busbw = algbw x factor, n ranks.
"""

from typing import Literal

Collective = Literal[
    "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"
]
_TIMES_NEAR_ONE = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "all_to_all": 1}


def busbw_factor(collective: Collective, num_ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth: k (n-1)/n; 1 of broadcast and reduce."""
    times = _TIMES_NEAR_ONE.get(collective)
    return 1.0 if times is None else times * (num_ranks - 1) / num_ranks
