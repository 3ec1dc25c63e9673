"""Whole steps of random scenarios, simulated GPU by GPU and event by event: no formula of a step.

A document is simulated as `random_waits` writes it. Laws are drawn by NumPy; messages take what the
textbook says of a ring, of a tree and of one transfer.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rng = np.random.Generator
Document = dict[str, Any]


class Simulated(NamedTuple):
    """Mean step, ms, over clusters and time; its standard error; steps of a barrier, else none."""

    mean: float
    error: float
    steps: Floats


def simulated(document: Document, clusters: int, steps: int, rng: Rng) -> Simulated:
    """Of every state of the episodes; an average over time of 1 / step."""
    weights, means, errors, drawn = [], [], [], np.empty(0)
    for weight, slowed in _states(document):
        of_cluster, drawn = _in_state(document, slowed, (clusters, steps), rng)
        weights.append(weight)
        means.append(of_cluster.mean())
        errors.append(of_cluster.std(ddof=1) / np.sqrt(clusters))
    w, m, e = np.array(weights), np.array(means), np.array(errors)
    mean = 1 / (w / m).sum()
    error = float(np.sqrt(((w * (mean / m) ** 2 * e) ** 2).sum()))
    return Simulated(float(mean), error, drawn if len(w) == 1 else np.empty(0))


def _states(document: Document) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Which GPUs are in an episode, and the share of the time."""
    episodes = document["variability"].get("episodes")
    if episodes is None:
        yield 1.0, ()
        return
    occupancy = 1 - np.exp(-episodes["rate_per_gpu_day"] * episodes["mean_hours"] / 24)
    num_gpus = _used(document)
    for number in range(num_gpus + 1):
        for slowed in combinations(range(num_gpus), number):
            yield occupancy**number * (1 - occupancy) ** (num_gpus - number), slowed


def _used(document: Document) -> int:
    return int(document["num_gpus"] - document.get("num_evicted_gpus", 0))


def compute_ms(document: Document) -> float:
    """At nominal speed."""
    scaling = document.get("scaling")
    share = scaling["reference_num_gpus"] / _used(document) if scaling else 1.0
    return float(document["compute_ms"] * share)


def exchange_ms(document: Document, share: float) -> float:
    """All-reduce of this share of the message."""
    given = document["communication"]
    if given["kind"] == "fixed":
        return float(given["allreduce_ms"] * share)
    n = _used(document) // document["tensor_parallel_size"]
    if n == 1:
        return 0.0
    latency = given["link"]["latency_us"] / 1e3
    size = share * given["message_bytes"] / given.get("compression_ratio", 1.0)
    whole = size / given["link"]["bandwidth_gigabytes_per_s"] / 1e6
    if given["kind"] == "ring":
        return float(2 * (n - 1) * latency + 2 * (n - 1) / n * whole)
    if given["kind"] == "tree":
        return float(2 * np.ceil(np.log2(n)) * latency + 2 * whole)
    return float(latency + whole)


def compression_ms(document: Document) -> float:
    """On the GPU, of a whole message; a single rank sends none."""
    ranks = _used(document) // document["tensor_parallel_size"]
    return float(document["communication"].get("compression_ms", 0.0)) if ranks > 1 else 0.0


# Factors.


def _drawn(law: dict[str, Any], size: tuple[int, ...], rng: Rng) -> Floats:
    cv = law["cv"]
    if law["kind"] == "normal":
        found: Floats = 1 + cv * rng.standard_normal(size)
        return found
    if law["kind"] == "lognormal":
        sd = np.sqrt(np.log1p(cv**2))
        return rng.lognormal(-(sd**2) / 2, sd, size)
    return rng.gamma(1 / cv**2, cv**2, size)


def _correlated(law: dict[str, Any], size: tuple[int, int, int], phi: float, rng: Rng) -> Floats:
    """Normal scores with an autocorrelation over steps; only of normal and lognormal laws."""
    score = rng.standard_normal(size)
    for step in range(1, size[1]):
        score[:, step] = phi * score[:, step - 1] + np.sqrt(1 - phi**2) * score[:, step]
    if law["kind"] == "normal":
        return np.asarray(1 + law["cv"] * score)
    sd = np.sqrt(np.log1p(law["cv"] ** 2))
    found: Floats = np.exp(sd * score - sd**2 / 2)
    return found


def lasting(document: Document, slowed: tuple[int, ...], clusters: int, rng: Rng) -> Floats:
    """(clusters, GPUs that take part) factors that stay."""
    sources = document["variability"]
    spares, evicted = (document.get(f"num_{kind}_gpus", 0) for kind in ("spare", "evicted"))
    total = document["num_gpus"] + spares
    means = np.ones(total)
    first = 0
    for group in document.get("slow_groups", []):
        means[first : first + group["count"]] = 1 / group["speed_fraction"]
        first += group["count"]
    factor = np.tile(means, (clusters, 1))
    if "episodes" not in sources:
        # A state of episodes knows how many of each speed are slowed.
        factor = rng.permuted(factor, axis=1)
    if "persistent" in sources:
        factor *= _drawn(sources["persistent"], factor.shape, rng)
    if "node" in sources:
        size = document["gpus_per_node"]
        of_node = _drawn(sources["node"], (clusters, -(-total // size)), rng)
        factor *= np.repeat(of_node, size, axis=1)[:, :total]
    if spares + evicted:
        # The others close ranks.
        left = factor.argsort(axis=1).argsort(axis=1) < total - spares - evicted
        factor = factor[left].reshape(clusters, -1)
    factor[:, list(slowed)] *= sources.get("episodes", {}).get("severity", 1.0)
    return factor


def per_step(document: Document, size: tuple[int, int, int], rng: Rng) -> Floats:
    """(clusters, steps, GPUs) factors drawn anew each step."""
    sources = document["variability"]
    clusters, steps, num_gpus = size
    factor = np.ones(size)
    if "transient" in sources:
        phi = sources.get("autocorrelation", 0.0)
        law = sources["transient"]
        factor *= _correlated(law, size, phi, rng) if phi else _drawn(law, size, rng)
    if "replica" in sources:
        group = document["tensor_parallel_size"]
        drawn = _drawn(sources["replica"], (clusters, steps, num_gpus // group), rng)
        factor *= np.repeat(drawn, group, axis=2)
    if "spikes" in sources:
        spikes = sources["spikes"]
        hit = rng.random(size) < spikes["probability"]
        factor *= np.where(hit, spikes["slowdown"], 1.0)
    if "common" in sources:
        factor *= _drawn(sources["common"], (clusters, steps, 1), rng)
    return factor


# Steps.


def _in_state(
    document: Document, slowed: tuple[int, ...], shape: tuple[int, int], rng: Rng
) -> tuple[Floats, Floats]:
    """(clusters,) mean steps, and single steps of a barrier."""
    clusters, steps = shape
    waiting = document["synchronization"]
    kind = waiting["kind"]
    stays = lasting(document, slowed, clusters, rng)
    is_barrier = kind in {"every_step", "backup_workers"}
    if is_barrier:
        steps = 4
    factor = stays[:, np.newaxis] * per_step(document, (clusters, steps, stays.shape[1]), rng)
    if is_barrier:
        last = factor.shape[2] - 1 - waiting.get("count", 0)
        slowest = np.partition(factor, last, axis=2)[:, :, last]
        drawn = barrier_step(document, slowest)
        return drawn.mean(axis=1), drawn[:, 0]
    group = document["tensor_parallel_size"]
    ranks = factor.reshape(clusters, steps, -1, group).max(axis=3) * compute_ms(document)
    walk = _rounds if kind == "local_steps" else _stale
    return walk(document, ranks), np.empty(0)


def barrier_step(document: Document, slowest: Floats) -> Floats:
    """Steps, ms, whose slowest factor is this: the load hidden where it is."""
    rest = compression_ms(document) + chosen_walk(document)(document, slowest)
    load = document["load_ms"]
    found: Floats = np.maximum(load, rest) if document["overlap"]["load_prefetch"] else load + rest
    return found


def chosen_walk(document: Document) -> Callable[[Document, Floats], Floats]:
    """Of compute and communication."""
    return {"none": _one_by_one, "buckets": _bucketed, "fsdp": _sharded}[
        document["overlap"]["kind"]
    ]


def _one_by_one(document: Document, slowest: Floats) -> Floats:
    return slowest * compute_ms(document) + exchange_ms(document, 1.0)


def _shares(document: Document) -> list[float]:
    overlap = document["overlap"]
    if "num_buckets" in overlap:
        return [1 / overlap["num_buckets"]] * int(overlap["num_buckets"])
    total = sum(overlap["bucket_shares"])
    return [share / total for share in overlap["bucket_shares"]]


def _bucketed(document: Document, slowest: Floats) -> Floats:
    """Walks from bucket to bucket; compute runs slower while the channel is busy."""
    backward = document["backward_fraction"]
    slowed = 1 + document["overlap"]["contention_fraction"]
    work = slowest * compute_ms(document)
    ready = work * (1 - backward)
    free = np.zeros_like(work)
    for share in _shares(document):
        todo = work * backward * share
        # Until the channel is free, compute does 1 / slowed of its work.
        busy = np.maximum(free - ready, 0.0)
        ready = np.where(
            todo * slowed <= busy, ready + todo * slowed, ready + todo + busy * (1 - 1 / slowed)
        )
        free = np.maximum(ready, free) + exchange_ms(document, share)
    found: Floats = np.maximum(free, ready)
    return found


def _sharded(document: Document, slowest: Floats) -> Floats:
    """Layers in their order; requests of the channel are served as they come."""
    overlap = document["overlap"]
    layers, ahead = overlap["num_layers"], overlap["prefetch_layers"]
    half = exchange_ms(document, 1 / layers) / 2
    layer = slowest * compute_ms(document) / layers
    forward = layer * (1 - document["backward_fraction"])
    backward = layer * document["backward_fraction"]
    done = [np.zeros_like(slowest)]
    channel = np.zeros_like(slowest)
    for number in range(1, layers + 1):
        begins = done[max(number - 1 - ahead, 0)]
        channel = np.maximum(channel, begins) + half
        done.append(np.maximum(channel, done[-1]) + forward)
    start = done[-1]
    if ahead == 0:
        found: Floats = start + layers * (backward + half) + (layers - 1) * half
        return found
    gathered = {layers: start}
    channel, now = start, start
    asked = layers - 1
    for number in range(layers, 0, -1):
        # Layer `number` may begin once it is there; then further layers are asked for.
        now = np.maximum(now, gathered[number])
        while asked >= max(number - ahead, 1):
            channel = np.maximum(channel, now) + half
            gathered[asked] = channel
            asked -= 1
        now = now + backward
        channel = np.maximum(channel, now) + half
    return channel


def _rounds(document: Document, ranks: Floats) -> Floats:
    """(clusters,) from ms of compute, (clusters, steps, ranks)."""
    waiting, overlap = document["synchronization"], document["overlap"]
    interval = waiting["steps"] // waiting.get("fragments", 1)
    tau, release = waiting.get("overlap_steps", 0), waiting.get("release_fraction", 1.0)
    part = exchange_ms(document, 1 / waiting.get("fragments", 1))
    hides, load = overlap["load_prefetch"], document["load_ms"]
    clusters, steps, num_ranks = ranks.shape
    ended = np.zeros((clusters, num_ranks))
    begun = np.full((clusters, num_ranks), -np.inf)
    exchanged = np.zeros(clusters)
    gates: dict[int, Floats] = {}
    before = np.zeros(clusters)
    burnt = steps // 4 // waiting["steps"] * waiting["steps"]
    for step in range(1, steps + 1):
        begins = ended
        if step in gates:
            begins = np.maximum(begins, gates.pop(step)[:, np.newaxis])
        if hides:
            begins = np.maximum(begins, begun + load)
        begun = begins
        compute_from = begins + (0.0 if hides else load)
        compute_from = compute_from + compression_ms(document) / waiting["steps"]
        compute = ranks[:, step - 1]
        ended = compute_from + compute
        if step % interval == 0:
            if overlap["kind"] == "buckets":
                # All ranks are slowed alike: the last one to reach each bucket decides.
                exchanged = _last_of_buckets(document, compute_from, compute, exchanged)
            else:
                ready = (compute_from + release * compute).max(axis=1)
                exchanged = np.maximum(ready, exchanged) + part
            gates[step + tau + 1] = exchanged
        if step == burnt:
            before = ended.max(axis=1)
    found: Floats = (ended.max(axis=1) - before) / (steps - burnt)
    return found


def _last_of_buckets(
    document: Document, compute_from: Floats, compute: Floats, exchanged: Floats
) -> Floats:
    """(clusters,) end of the exchange of a round, whose buckets wait for the last rank each."""
    backward = document["backward_fraction"]
    slowed = document["overlap"]["contention_fraction"]
    theta = slowed / (1 + slowed)
    free, passed, share_before = exchanged, 0.0, 0.0
    for share in _shares(document):
        share_before += share
        reached = compute_from + compute * (1 - backward * (1 - share_before))
        ready = reached.max(axis=1) + theta * passed
        cost = exchange_ms(document, share)
        free = np.maximum(ready, free) + cost
        passed += cost
    return free


def _stale(document: Document, ranks: Floats) -> Floats:
    """(clusters,) from ms of compute, (clusters, steps, ranks)."""
    waiting = document["synchronization"]
    behind = 1 if waiting["kind"] == "delayed_update" else waiting["staleness"]
    delay = waiting["delay_ms"] + exchange_ms(document, 1.0)
    hides, load = document["overlap"]["load_prefetch"], document["load_ms"]
    clusters, steps, num_ranks = ranks.shape
    ended = np.zeros((clusters, num_ranks))
    begun = np.full((clusters, num_ranks), -np.inf)
    last = [np.zeros(clusters)]
    for step in range(1, steps + 1):
        seen = step - 1 - behind
        begins = ended
        if seen > 0:
            begins = np.maximum(ended, (last[seen] + delay)[:, np.newaxis])
        if hides:
            begins = np.maximum(begins, begun + load)
        begun = begins
        ended = begins + (0.0 if hides else load) + compression_ms(document) + ranks[:, step - 1]
        last.append(ended.max(axis=1))
    burnt = steps // 4
    found: Floats = (last[steps] - last[burnt]) / (steps - burnt)
    return found
