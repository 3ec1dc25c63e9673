"""One reproducible step, rank by rank.

The draw of a rank depends on the seed, the source of variability and the rank alone, so it stays
when the cluster grows, when slow groups change and whatever else is computed. Slow groups take the
ranks from 0 on, in the order in which they are listed.
"""

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.model.barrier import SMALLEST_CV
from service.model.distributions import Floats, Law, law_and_shape
from service.model.fields import Scenario
from service.model.many_quantiles import QuantileTable

TRANSIENT = 1
"""Number of the source in the generator's key; each source has its own, for ever."""

CHUNK_RANKS = 1 << 18
# Above so many, a table of quantiles is cheaper than the quantiles.
MANY_RANKS = 100_000
_WORDS_PER_COUNTER = 4
_BITS = 52
_HOURS_PER_DAY = 24


class RankRow(Struct, frozen=True, kw_only=True):
    """One GPU in this step."""

    rank: int
    speed_fraction: float
    compute_ms: float
    wait_ms: float


class RankDraw(Struct, frozen=True, kw_only=True):
    """A single drawn step; the slowest ranks come first, equal ones by rank."""

    ranks: list[RankRow]
    num_ranks: int
    num_left_out: int
    median_compute_ms: float
    slowest_compute_ms: float
    slowest_to_median_gap_ms: float
    step_ms: float
    efficiency_fraction: float
    gpu_hours_lost_per_day: float


def draw_ranks(scenario: Scenario, limit: int = 64) -> RankDraw:
    """Draw one step and report its `limit` slowest ranks."""
    speed = _speeds(scenario)
    compute = _compute(scenario, speed)
    rows = _slowest_ranks(compute, min(limit, len(compute)))
    slowest = float(compute.max())
    median = float(np.median(compute))
    outside = scenario.load_ms + scenario.communication.allreduce_ms
    step = outside + slowest
    efficiency = (outside + scenario.compute_ms) / step
    return RankDraw(
        ranks=[
            RankRow(
                rank=rank,
                speed_fraction=float(speed[rank]),
                compute_ms=float(compute[rank]),
                wait_ms=slowest - float(compute[rank]),
            )
            for rank in rows.tolist()
        ],
        num_ranks=len(compute),
        num_left_out=len(compute) - len(rows),
        median_compute_ms=median,
        slowest_compute_ms=slowest,
        slowest_to_median_gap_ms=slowest - median,
        step_ms=step,
        efficiency_fraction=efficiency,
        gpu_hours_lost_per_day=_HOURS_PER_DAY * scenario.num_gpus * (1 - efficiency),
    )


def upper_uniforms(seed: int, source: int, start: int, stop: int) -> Floats:
    """(stop - start,) uniform numbers q of the ranks from `start` on; the u of a rank is 1 - q.

    Word i of Philox4x64-10 under the key (seed, source), its upper 52 bits plus a half: never 0 or
    1, and 1 - q is exact.
    """
    first = start // _WORDS_PER_COUNTER
    generator = np.random.Philox(key=np.array([seed, source], dtype=np.uint64))
    generator.advance(first)
    words = generator.random_raw(stop - first * _WORDS_PER_COUNTER)
    bits = words[start - first * _WORDS_PER_COUNTER :] >> np.uint64(64 - _BITS)
    return (bits.astype(np.float64) + 0.5) * 2.0**-_BITS


def _speeds(scenario: Scenario) -> Floats:
    groups = scenario.slow_groups
    speed = np.ones(scenario.num_gpus)
    slow = np.repeat([group.speed_fraction for group in groups], [group.count for group in groups])
    speed[: len(slow)] = slow
    return speed


def _compute(scenario: Scenario, speed: Floats) -> Floats:
    """(ranks,) compute times, in chunks so that only the result grows with the cluster."""
    compute = scenario.compute_ms / speed
    source = scenario.variability.transient
    law, shape = (None, np.zeros((2, 1))) if source is None else law_and_shape(source)
    if law is not None and shape[0, 0] > 0:
        quantile = _quantile(law, shape, len(compute))
        for start in range(0, len(compute), CHUNK_RANKS):
            stop = min(start + CHUNK_RANKS, len(compute))
            q = upper_uniforms(scenario.seed, TRANSIENT, start, stop)
            # A normal factor of a large cv is below 0 once in thousands; no compute time is.
            compute[start:stop] *= np.maximum(quantile(q), 0)
    return compute


def _quantile(law: Law, shape: Floats, num_ranks: int) -> Callable[[Floats], Floats]:
    """The factor of the uniform number q: exact, or from a table that agrees within 1e-10."""
    shape = np.maximum(shape, np.array([[SMALLEST_CV], [0.0]]))
    if num_ranks > MANY_RANKS:
        return QuantileTable(law, shape).upper_quantile
    return lambda q: law.upper_quantile(q, shape)


def _slowest_ranks(compute: Floats, limit: int) -> NDArray[np.intp]:
    """The `limit` ranks of the largest times, slowest first, ties by rank."""
    if limit == 0:
        return np.empty(0, dtype=np.intp)
    boundary = np.partition(compute, -limit)[-limit]
    above = np.flatnonzero(compute > boundary)
    at = np.flatnonzero(compute == boundary)[: limit - len(above)]
    ranks = np.concatenate([above, at])
    return ranks[np.lexsort((ranks, -compute[ranks]))]
