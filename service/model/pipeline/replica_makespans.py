"""Makespans of one random replica: what waits for nobody but its own stages."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.pipeline.blocks_of_draws import blocks_of_lanes, blocks_of_replicas
from service.model.pipeline.jittered import Jittered, Pick, jittered_replicas
from service.model.pipeline.known_parts import known_parts
from service.model.pipeline.one_cluster import OneCluster, clusters_of
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.random_places import placements_of
from service.model.pipeline.rare_spikes import rare_spikes
from service.model.pipeline.replica_states import is_exact
from service.model.pipeline.simulate import num_lanes_of, untried_share
from service.model.pipeline.step_factors import DrawnSteps
from service.model.pipeline.weighted_quantiles import weighted_quantiles

Ints = NDArray[np.int64]

PROBABILITIES = (0.5, 0.95)
MAKESPANS = 1 << 14
"""So many are worked out of each point, or one of every replica."""


class ReplicaMakespans(NamedTuple):
    """(points,) each, over replicas and steps (episodes weigh by time), over nominal compute.

    busy_mean (stages, points): how long a stage works in a step.
    """

    mean: Floats
    mean_se: Floats
    p50: Floats
    p95: Floats
    busy_mean: Floats


class _One(NamedTuple):
    mean: float
    mean_se: float
    quantiles: Floats
    busy: Floats


def replica_makespans(fleet: Fleet, seed: Ints, draws: Ints) -> ReplicaMakespans:
    """Every point, with the random numbers of `simulate_pipelines`."""
    found = [
        _exact(cluster)
        if is_exact(cluster)
        else _sampled(cluster, int(point_seed), num_lanes_of(int(number)))
        for cluster, point_seed, number in zip(clusters_of(fleet), seed, draws, strict=True)
    ]
    return ReplicaMakespans(
        mean=np.array([one.mean for one in found]),
        mean_se=np.array([one.mean_se for one in found]),
        p50=np.array([one.quantiles[0] for one in found]),
        p95=np.array([one.quantiles[1] for one in found]),
        busy_mean=np.array([one.busy for one in found]).T,
    )


def _exact(cluster: OneCluster) -> _One:
    places = placements_of(cluster)
    return _One(
        mean=float(places.probability @ places.makespan),
        mean_se=0.0,
        quantiles=weighted_quantiles(places.makespan, places.probability, PROBABILITIES),
        busy=cluster.busy * (places.factor @ places.probability),
    )


def _sampled(cluster: OneCluster, seed: int, num_lanes: int) -> _One:
    """What is known of spikes and random places, which the draws may miss, is added.

    That is the exact mean less the one of the same draws, with nothing else in them.
    """
    found = _drawn(cluster, seed, num_lanes)
    if cluster.fleet.episodes is not None:
        return found.result()
    busy, added, untried = np.zeros(cluster.stages), 0.0, 0.0
    for part, exact in _known(cluster, num_lanes):
        drawn = _drawn(part, seed, num_lanes)
        of_part = drawn.result()
        busy += exact.busy - of_part.busy
        added += exact.mean - of_part.mean
        untried = float(np.hypot(untried, max(exact.mean_se, abs(exact.mean - of_part.mean))))
        found.known = found.known + drawn.of_draws()
    one = found.result()
    return one._replace(
        mean=one.mean + added,
        mean_se=float(np.hypot(one.mean_se, untried_share(cluster) * untried)),
        busy=one.busy + busy,
    )


def _known(cluster: OneCluster, num_lanes: int) -> list[tuple[OneCluster, _One]]:
    """Parts with what is known of them; the error of rare spikes is all that they add."""
    parts = known_parts(cluster)
    known = [(part, _exact(part)) for part in parts]
    rare = rare_spikes(cluster, num_lanes * LANE)
    if rare is None or any(part.fleet.spikes is not None for part in parts):
        return known
    longer = float(rare.of_stage * (rare.of_one - rare.nominal).sum())
    busy = cluster.busy * (1 + rare.of_stage * (rare.slowdown - 1))
    return [*known, (rare.part, _One(rare.nominal + longer, longer, np.empty(0), busy))]


def _drawn(cluster: OneCluster, seed: int, num_lanes: int) -> "_Sums":
    picked = _Picked(cluster, num_lanes)
    sums = _Sums(cluster, DrawnSteps(cluster, seed), picked)
    jittered = jittered_replicas(cluster, sums.drawn, seed)
    for lanes in blocks_of_lanes(cluster, num_lanes):
        for replicas in blocks_of_replicas(cluster, lanes):
            picks = picked.among(lanes, replicas)
            if not picks:
                continue
            if jittered is None:
                for factors in sums.drawn.of_round(lanes, replicas):
                    sums.add_even(factors.of_stages(), lanes, replicas, picks)
            else:
                rounds = sums.drawn.of_round(lanes, replicas, each_gpu=True)
                for step, factors in enumerate(rounds):
                    for some in jittered.of_step(factors, step, lanes, replicas, picks):
                        sums.add_jittered(some, lanes, replicas)
    return sums


class _Picked:
    """Which replicas are looked at in which lane: in turn, each about as often."""

    def __init__(self, cluster: OneCluster, num_lanes: int) -> None:
        steps = num_lanes * LANE * int(cluster.shape.round_steps[0])
        number = max(-(-MAKESPANS // steps), -(-cluster.num_replicas // num_lanes))
        self._number = min(number, cluster.num_replicas)
        self._num_replicas = cluster.num_replicas
        turns = np.arange(self._number * num_lanes) % cluster.num_replicas
        times = np.bincount(turns, minlength=cluster.num_replicas)
        of_lane = LANE * int(cluster.shape.round_steps[0])
        self.weight: Floats = 1 / (of_lane * cluster.num_replicas * times)
        """(replicas,) of a makespan: each replica counts alike."""

    def among(self, lanes: range, replicas: range) -> list[Pick]:
        """Those of a block."""
        place = np.array(replicas)[:, np.newaxis] - self._number * np.array(lanes)
        rows, columns = np.nonzero(place % self._num_replicas < self._number)
        return [Pick(*pick) for pick in zip(rows.tolist(), columns.tolist(), strict=True)]


class _Sums:
    """All makespans with their weights and states, and the busy times so far."""

    def __init__(self, cluster: OneCluster, drawn: DrawnSteps, picked: _Picked) -> None:
        self.drawn = drawn
        self._cluster, self._picked = cluster, picked
        self._found: list[tuple[Floats, Floats, NDArray[np.int64]]] = []
        self._busy = np.zeros(cluster.stages)
        self.known: Floats = np.zeros(1)
        """(draws,) or (1,) of the weighted makespans, what is known and only its rest varies."""
        self._times = cluster.operation_times

    def add_even(self, of_stages: Floats, lanes: range, replicas: range, picks: list[Pick]) -> None:
        """Picks of a step with factors (replicas, stages, draws)."""
        rows = np.array(picks)
        by_lane = of_stages.reshape(*of_stages.shape[:2], len(lanes), LANE)
        factor = by_lane[rows[:, 0], :, rows[:, 1]].transpose(1, 0, 2)
        factor = factor.reshape(self._cluster.stages, -1)
        weight = self._add(self._cluster.makespans(factor), lanes, replicas, picks)
        self._busy += self._cluster.busy * (factor @ weight)

    def add_jittered(self, some: Jittered, lanes: range, replicas: range) -> None:
        """Picks of a step with factors of single operations."""
        makespan = self._cluster.makespans(some.factor, some.jitter)
        weight = self._add(makespan, lanes, replicas, some.picks)
        stage = self._cluster.plan.stage
        busy = self._times * ((some.factor[stage] * some.jitter) @ weight)
        self._busy += np.bincount(stage, busy, self._cluster.stages)

    def _add(self, makespan: Floats, lanes: range, replicas: range, picks: list[Pick]) -> Floats:
        """(picks x LANE,) weights."""
        rows = np.array(picks)
        weight = np.repeat(self._picked.weight[replicas.start + rows[:, 0]], LANE)
        draw = (lanes.start + rows[:, 1:]) * LANE + np.arange(LANE)
        self._found.append((makespan, weight, draw.ravel()))
        return weight

    def of_draws(self) -> Floats:
        """(draws,) sums of makespans by their weights."""
        makespan, weight, draw = self._columns()
        return np.bincount(draw, weight * makespan).astype(np.float64)

    def _columns(self) -> tuple[Floats, Floats, NDArray[np.int64]]:
        makespan, weight, draw = zip(*self._found, strict=True)
        return np.concatenate(makespan), np.concatenate(weight), np.concatenate(draw)

    def result(self) -> _One:
        """Of all that was added."""
        makespan, weight, draw = self._columns()
        mean = float(weight @ makespan)
        rest = self.of_draws() - self.known
        rest -= np.bincount(draw, weight) * rest.sum()
        of_state = np.add.reduceat(rest, np.arange(0, len(rest), self.drawn.draws_of_state))
        number = len(of_state)
        error = (number / (number - 1) * (of_state @ of_state)) ** 0.5
        return _One(
            mean=mean,
            mean_se=float(error),
            quantiles=weighted_quantiles(makespan, weight, PROBABILITIES),
            busy=self._busy,
        )
