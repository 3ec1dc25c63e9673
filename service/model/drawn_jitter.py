"""How single operations of a pipeline vary in one reproducible step.

The k-th operation of a GPU draws by the seed, k and the GPU alone, so the draw stays when the
cluster grows, and whatever the schedule.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.distributions import Distribution, law_and_shape
from service.model.laws.law import Floats
from service.model.pipeline.operations import Integers
from service.model.pipeline.plan import Plan
from service.model.rank_factors import JITTER, factor_quantile
from service.model.uniforms import upper_uniforms

# Numbers of one operation, above the largest number of GPUs.
_GPUS_PER_OPERATION = 1 << 24


class Varied(NamedTuple):
    """Some replicas with jitter.

    factor   (operations, replicas) of each operation: that of the slowest GPU of its stage
    busy     (replicas, stages, GPUs) time that a GPU works
    """

    factor: Floats
    busy: Floats


class DrawnJitter:
    """Of the operations of one plan, under one distribution that varies."""

    def __init__(self, given: Distribution, seed: int, plan: Plan) -> None:
        self._law, self._shape = law_and_shape(given)
        self._seed = seed
        self._plan = plan
        self._orders = _orders(plan)

    def varied(self, own: Floats, rank: NDArray[np.intp], times: Floats) -> Varied:
        """Of replicas whose GPUs have these factors and numbers, (replicas, stages, GPUs).

        times   (operations,) at nominal speed
        """
        factor = np.empty((self._plan.num_operations, len(own)))
        busy = np.zeros(own.shape)
        for operation, drawn in self._operation_by_operation(rank):
            there = operation >= 0
            each = own[:, there] * drawn[:, there]
            factor[operation[there]] = each.max(axis=2).T
            busy[:, there] += each * times[operation[there], np.newaxis]
        return Varied(factor, busy)

    def _operation_by_operation(self, rank: NDArray[np.intp]) -> Iterator[tuple[Integers, Floats]]:
        """What every stage does first, second, and so on (stages,), and factors (as rank)."""
        first, last = int(rank.min()), int(rank.max()) + 1
        quantile = factor_quantile(self._law, self._shape, self._orders.size * rank.size)
        for place, operation in enumerate(self._orders):
            start = place * _GPUS_PER_OPERATION
            uniforms = upper_uniforms(self._seed, JITTER, start + first, start + last)
            # A normal factor of a large cv is below 0 once in thousands; no operation's time is.
            yield (
                operation,
                np.maximum(quantile(uniforms[rank - first].ravel()), 0).reshape(rank.shape),
            )


def _orders(plan: Plan) -> Integers:
    """(most operations of a stage, stages) the operations of each in order, -1 after the last."""
    counts = np.bincount(plan.stage, minlength=plan.stages)
    orders = np.full((int(counts.max()), plan.stages), -1)
    sorting = np.argsort(plan.stage, kind="stable")
    place = np.arange(len(sorting)) - np.repeat(np.cumsum(counts) - counts, counts)
    orders[place, plan.stage[sorting]] = sorting
    return orders
