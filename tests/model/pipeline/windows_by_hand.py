"""Windows of pipelined clusters with episodes, drawn episode by episode."""

from collections.abc import Callable

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.one_cluster import OneCluster
from tests.model.pipeline.piped_fleets import event_makespans

Factors = Callable[[np.random.Generator], Floats]


def windows_by_hand(cluster: OneCluster, number: int, hours: float, factors: Factors) -> Floats:
    """(windows,) effective steps; episodes of an hour come to a GPU as a Poisson process.

    `factors` of GPUs (GPUs, draws of a step) beside them, for each window; one GPU a stage.
    """
    rng = np.random.default_rng(6)
    episodes = cluster.fleet.episodes
    assert episodes is not None
    found = []
    known: dict[bytes, float] = {}
    before = np.zeros(0)
    for _ in range(number):
        others = factors(rng)
        if others is not before:
            before, known = others, {}
        states, lasts = _states(cluster, float(episodes.occupancy[0]), hours, rng)
        new = [key for key in dict.fromkeys(row.tobytes() for row in states) if key not in known]
        if new:
            ill = np.array([np.frombuffer(key, dtype=np.bool_) for key in new])
            slow = np.where(ill, episodes.severity[0], 1.0)
            known.update(zip(new, _mean_steps(cluster, slow, others), strict=True))
        done = sum(
            one / (0.3 + known[row.tobytes()]) for row, one in zip(states, lasts, strict=True)
        )
        found.append(hours / done - 0.3)
    return np.array(found)


def _states(
    cluster: OneCluster, occupancy: float, hours: float, rng: np.random.Generator
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.bool_]], list[float]]:
    """Who is in an episode (states, GPUs), and for how long (states,)."""
    rate = float(-np.log1p(-occupancy)) * cluster.num_working
    running, new = rng.poisson(rate), rng.poisson(rate * hours)
    start = np.append(np.zeros(running), rng.uniform(0, hours, new))
    end = np.minimum(start + rng.exponential(size=len(start)), hours)
    gpu = rng.integers(cluster.num_working, size=len(start))
    time = np.append(start, end)
    order = np.argsort(time, kind="stable")
    change = np.append(np.ones(len(start)), -np.ones(len(start)))[order]
    count = np.zeros((len(order) + 1, cluster.num_working))
    count[np.arange(1, len(order) + 1), np.append(gpu, gpu)[order]] = change
    lasts = np.diff(np.concatenate([[0.0], time[order], [hours]]))
    return count.cumsum(axis=0) > 0, lasts.tolist()


def _mean_steps(cluster: OneCluster, slow: Floats, others: Floats) -> list[float]:
    """Of states (states, GPUs), over the draws of a step."""
    factor = (slow[:, :, np.newaxis] * others).reshape(
        len(slow), cluster.num_replicas, cluster.stages, -1
    )
    lanes = factor.transpose(2, 1, 0, 3).reshape(cluster.stages, 1, 1, -1)
    makespans = event_makespans(cluster, lanes).reshape(cluster.num_replicas, len(slow), -1)
    steps = np.maximum(makespans.max(axis=0), cluster.floor).mean(axis=1)
    return [float(step) for step in steps]
