"""Steps of pipelines drawn once more, GPU by GPU, with other random numbers."""

from typing import Any

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.one_cluster import clusters_of
from service.model.pipeline.shape import RANDOM
from tests.model.pipeline.piped_fleets import event_makespans, piped_fleet

PER_STEP = ("transient", "spikes", "replica", "common", "jitter")


def steps_by_hand(given: dict[str, Any], number: int, seed: int = 1) -> Floats:
    """(draws,) means over a round; episodes are drawn anew in each."""
    return replicas_by_hand(given, number, seed)[1]


def replicas_by_hand(given: dict[str, Any], number: int, seed: int = 1) -> tuple[Floats, Floats]:
    """(draws, replicas) means over a round, and (draws,) what the round waits for."""
    rng = np.random.default_rng(seed)
    lasting = lasting_by_hand(given, number, rng)
    return rounds_by_hand(given, lasting, rng)


def rounds_by_hand(
    given: dict[str, Any], lasting: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Likewise for GPUs (draws, GPUs) that differ so."""
    cluster = clusters_of(piped_fleet(**given))[0]
    replicas, stages, size = cluster.num_replicas, cluster.stages, cluster.tensor_size
    shape = (len(lasting), replicas, stages, size)
    steps, phi = given.get("round_steps", 1), given.get("autocorrelation", 0.0)
    total = np.zeros((len(lasting), replicas))
    score = rng.standard_normal(shape)
    for _ in range(steps):
        factor = lasting.reshape(shape).copy()
        if "transient" in given:
            factor *= of_scores(given["transient"], score, rng)
            score = phi * score + (1 - phi**2) ** 0.5 * rng.standard_normal(shape)
        if "spikes" in given:
            probability, slowdown = given["spikes"]
            factor *= np.where(rng.random(shape) < probability, slowdown, 1.0)
        shared = np.ones(shape[:2])
        if "replica" in given:
            shared = of_law(given["replica"], shape[:2], rng)
        if "common" in given:
            shared = shared * of_law(given["common"], (shape[0], 1), rng)
        batches = cluster.shape.microbatches if "jitter" in given else 1
        of_operation = factor[:, :, :, np.newaxis, np.newaxis, :]
        if "jitter" in given:
            wide = (*shape[:3], 2, batches, size)
            of_operation = of_operation * of_law(given["jitter"], wide, rng)
        slowest = of_operation.max(axis=-1) * shared[:, :, np.newaxis, np.newaxis, np.newaxis]
        lanes = slowest.reshape(-1, stages, *slowest.shape[3:]).transpose(1, 2, 3, 0)
        total += event_makespans(cluster, lanes).reshape(total.shape)
    means = total / steps
    return means, np.sort(means, axis=1)[:, -1 - cluster.num_backup]


def lasting_by_hand(given: dict[str, Any], number: int, rng: np.random.Generator) -> Floats:
    """(draws, GPUs that work): slow groups at random, persistent, node, episodes."""
    fleet = piped_fleet(**given)
    cluster = clusters_of(fleet)[0]
    held = int(fleet.num_gpus[0, 0])
    factor = np.ones((number, held))
    order = rng.random((number, held))
    for count, value, stage in given.get("slow", []):
        for place in range(count if stage >= 0 else 0):
            replica, tensor = divmod(place, cluster.tensor_size)
            row = (replica * cluster.stages + stage) * cluster.tensor_size + tensor
            factor[:, row] = value
            order[:, row] = 2.0
    ranks, first = order.argsort(axis=1), 0
    for count, value, stage in given.get("slow", []):
        if stage == RANDOM:
            np.put_along_axis(factor, ranks[:, first : first + count], value, axis=1)
            first += count
    if "persistent" in given:
        factor *= of_law(given["persistent"], factor.shape, rng)
    if "node" in given:
        size = given.get("gpus_per_node", 8)
        of_node = of_law(given["node"], (number, -(-held // size)), rng)
        factor *= np.repeat(of_node, size, axis=1)[:, :held]
    removed = given.get("num_removed", 0)
    kept = []
    for row in factor:
        gone = sorted(range(held), key=lambda gpu: (-row[gpu], -gpu))[:removed]
        kept.append(filled(row, gone))
    factor = np.array(kept)
    if "episodes" in given:
        occupancy, severity = given["episodes"]
        factor = factor * np.where(rng.random(factor.shape) < occupancy, severity, 1.0)
    return factor


def filled(row: Floats, gone: list[int]) -> Floats:
    """The GPUs without these; the last ones take the places that are left."""
    places = list(row[: len(row) - len(gone)])
    last = [row[gpu] for gpu in range(len(places), len(row)) if gpu not in gone]
    for place in sorted(gpu for gpu in gone if gpu < len(places)):
        places[place] = last.pop(0)
    return np.array(places)


def of_law(law: tuple[str, float], shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    return of_scores(law, rng.standard_normal(shape), rng)


def of_scores(law: tuple[str, float], score: Floats, rng: np.random.Generator) -> Floats:
    """Factors of mean 1; of a gamma, new ones."""
    kind, cv = law
    if kind == "normal":
        return 1 + cv * score
    if kind == "lognormal":
        sd = np.log1p(cv * cv) ** 0.5
        factor: Floats = np.exp(sd * score - sd * sd / 2)
        return factor
    return rng.gamma(cv**-2.0, cv**2.0, score.shape)
