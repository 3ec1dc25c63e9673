"""Makespans by formula, where one is exact. Design page "The model", section 7.

Formulas of the zero-bubble and DualPipe papers hold for equal times of forward, input gradient and
weight gradient only: there the engine is asked.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats


class Pipelines(NamedTuple):
    """Points of one size; forward, backward (stages, points) and p2p (points,) in ms."""

    stages: int
    microbatches: int
    chunks: int
    forward: Floats
    backward: Floats
    p2p: Floats


def closed_makespans(
    schedule: str,
    stages: int,
    microbatches: int,
    chunks: int,
    *,
    forward: Floats,
    backward: Floats,
    weight_fraction: Floats,
    p2p: Floats,
) -> Floats:
    """(points,) ms, nan where no formula is exact; arguments as of `engine.makespans`."""
    del weight_fraction  # no schedule that splits the backward has a formula
    sizes = stages, microbatches, chunks
    pipelines = Pipelines(*sizes, *np.broadcast_arrays(forward, backward, p2p))
    formula = _alone if stages == 1 else _FORMULAS.get(schedule, _unknown)
    return formula(pipelines._replace(p2p=pipelines.p2p[0]))


def _unknown(pipelines: Pipelines) -> Floats:
    """None is exact."""
    return np.full_like(pipelines.p2p, np.nan)


def _alone(pipelines: Pipelines) -> Floats:
    """One stage waits for nobody: M (f + b)."""
    makespan: Floats = pipelines.microbatches * (pipelines.forward[0] + pipelines.backward[0])
    return makespan


def _naive(pipelines: Pipelines) -> Floats:
    """One stage after the other, there and back: sum of f + b, and 2 (P - 1) c."""
    work: Floats = pipelines.forward.sum(axis=0) + pipelines.backward.sum(axis=0)
    return work + 2 * (pipelines.stages - 1) * pipelines.p2p


def _gpipe(pipelines: Pipelines) -> Floats:
    """Naive, and M - 1 times the slowest f and the slowest b; equal stages or c = 0."""
    slowest = pipelines.forward.max(axis=0) + pipelines.backward.max(axis=0)
    makespan = _naive(pipelines) + (pipelines.microbatches - 1) * slowest
    return np.where(_has_equal_stages(pipelines) | (pipelines.p2p == 0), makespan, np.nan)


def _one_forward_one_backward(pipelines: Pipelines) -> Floats:
    """(M + P - 1)(f + b) + 2c floor((M + P - 1)(P - 1) / P); equal stages.

    Found on recorded schedules and held against the engine; without proof.
    """
    turns = pipelines.microbatches + pipelines.stages - 1
    hops = turns * (pipelines.stages - 1) // pipelines.stages
    makespan = turns * (pipelines.forward[0] + pipelines.backward[0]) + 2 * hops * pipelines.p2p
    return np.where(_has_equal_stages(pipelines), makespan, np.nan)


def _interleaved(pipelines: Pipelines) -> Floats:
    """M (f + b) + (P - 1)(f + b) / V + 2c (PV - 1); equal stages, M mod P = 0, c <= min(f, b) / V.

    Found on recorded schedules and held against the engine; without proof.
    """
    stages, microbatches, chunks = pipelines[:3]
    forward, backward = pipelines.forward[0], pipelines.backward[0]
    turns = microbatches + (stages - 1) / chunks
    makespan = turns * (forward + backward) + 2 * (stages * chunks - 1) * pipelines.p2p
    is_quick = pipelines.p2p <= np.minimum(forward, backward) / chunks
    is_exact = _has_equal_stages(pipelines) & is_quick & (microbatches % stages == 0)
    return np.where(is_exact, makespan, np.nan)


def _has_equal_stages(pipelines: Pipelines) -> NDArray[np.bool_]:
    """(points,) whether all stages take the same time, to the last bit."""
    is_equal = (pipelines.forward == pipelines.forward[0]) & (
        pipelines.backward == pipelines.backward[0]
    )
    equal: NDArray[np.bool_] = is_equal.all(axis=0)
    return equal


_FORMULAS: dict[str, Callable[[Pipelines], Floats]] = {
    "naive": _naive,
    "gpipe": _gpipe,
    "1f1b": _one_forward_one_backward,
    "interleaved_1f1b": _interleaved,
}
