"""Steps of pipelines worked through operation by operation, from the definitions alone.

Written from `.github/pipelines.md`, GPU by GPU, with the random numbers of NumPy. Of the service
only the orders of the schedules that are no formula are used; they are compared with published ones
elsewhere.
"""

from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.pipeline import SCHEDULES

Floats = NDArray[np.float64]
Rng = np.random.Generator
Document = dict[str, Any]
Row = tuple[int, int, int, int, int]
"""Kind, chunk, micro-batch, and chunk and micro-batch of the backward in a joined pair."""

FORWARD, BACKWARD, INPUT, WEIGHT, BOTH = range(5)


class Sizes(NamedTuple):
    """D, P, T, M, V."""

    replicas: int
    stages: int
    tensor: int
    microbatches: int
    chunks: int


class Pipes(NamedTuple):
    """Of all steps drawn.

    mean, error          of a step, ms; over time with episodes
    steps                (draws,) ms of single steps or means of rounds; none with episodes
    makespan, makespan_error   of a replica's pass
    makespans            (passes,) of one replica; none with episodes
    bubble, bubble_error idle share of the stages' time
    """

    mean: float
    error: float
    steps: Floats
    makespan: float
    makespan_error: float
    makespans: Floats
    bubble: float
    bubble_error: float


# What is not random.


def sizes_of(document: Document) -> Sizes:
    pipeline = document["pipeline"]
    tensor, stages = document["tensor_parallel_size"], pipeline["stages"]
    used = document["num_gpus"] - document.get("num_evicted_gpus", 0)
    microbatches = pipeline["microbatches"]
    if "scaling" in document:
        microbatches = microbatches * document["scaling"]["reference_num_gpus"] // used
    chunks = pipeline["chunks_per_stage"]
    return Sizes(used // stages // tensor, stages, tensor, microbatches, chunks)


def stage_ms(document: Document) -> tuple[Floats, Floats]:
    """(stages,) forward and backward of a micro-batch."""
    pipeline, sizes = document["pipeline"], sizes_of(document)
    if "forward_ms" in pipeline:
        return np.array(pipeline["forward_ms"]), np.array(pipeline["backward_ms"])
    weights = np.array(pipeline.get("stage_weights", [1.0] * sizes.stages))
    each = document["compute_ms"] / pipeline["microbatches"] * weights / weights.mean()
    return (1 - document["backward_fraction"]) * each, document["backward_fraction"] * each


def compute_ms(document: Document) -> float:
    """Of a GPU and step."""
    forward, backward = stage_ms(document)
    return float(sizes_of(document).microbatches * (forward + backward).mean())


def exchange_ms(document: Document) -> float:
    """All-reduce among replicas."""
    given, ranks = document["communication"], sizes_of(document).replicas
    if given["kind"] == "fixed":
        return float(given["allreduce_ms"])
    if ranks == 1:
        return 0.0
    latency = given["link"]["latency_us"] / 1e3
    size = given["message_bytes"] / given.get("compression_ratio", 1.0)
    whole = size / given["link"]["bandwidth_gigabytes_per_s"] / 1e6
    compression = given.get("compression_ms", 0.0)
    if given["kind"] == "ring":
        return float(compression + 2 * (ranks - 1) * latency + 2 * (ranks - 1) / ranks * whole)
    if given["kind"] == "tree":
        return float(compression + 2 * np.ceil(np.log2(ranks)) * latency + 2 * whole)
    return float(compression + latency + whole)


# Orders.


def orders_of(name: str, sizes: Sizes) -> list[list[Row]]:
    """What each rank does, in order."""
    made: Callable[[int, Sizes], list[Row]] | None = {
        "naive": _all_forwards_first,
        "gpipe": _all_forwards_first,
        "1f1b": _one_by_one,
        "interleaved_1f1b": _interleaved,
        "looped_bfs": _breadth_first,
    }.get(name)
    if made is not None:
        return [made(rank, sizes) for rank in range(sizes.stages)]
    orders = SCHEDULES[name].order(sizes.stages, sizes.microbatches, sizes.chunks)
    return [[tuple(row) for row in order.tolist()] for order in orders]


def _all_forwards_first(_rank: int, sizes: Sizes) -> list[Row]:
    return [
        (kind, 0, batch, -1, -1)
        for kind in (FORWARD, BACKWARD)
        for batch in range(sizes.microbatches)
    ]


def _breadth_first(_rank: int, sizes: Sizes) -> list[Row]:
    places = [
        (chunk, batch) for chunk in range(sizes.chunks) for batch in range(sizes.microbatches)
    ]
    forwards = [(FORWARD, *place, -1, -1) for place in places]
    return forwards + [(BACKWARD, *place, -1, -1) for place in reversed(places)]


def _one_by_one(rank: int, sizes: Sizes) -> list[Row]:
    warmup = min(sizes.stages - 1 - rank, sizes.microbatches)
    every = [(0, batch) for batch in range(sizes.microbatches)]
    return _in_turn(warmup, every, every)


def _interleaved(rank: int, sizes: Sizes) -> list[Row]:
    """Groups of q micro-batches go through all chunks, then the next ones."""
    number, chunks = sizes.microbatches, sizes.chunks
    group = number // max(1, number // sizes.stages)
    warmup = min(number * chunks, 2 * (sizes.stages - 1 - rank) + (chunks - 1) * group)
    forwards = [
        (chunk, batch)
        for first in range(0, number, group)
        for chunk in range(chunks)
        for batch in range(first, first + group)
    ]
    backwards = [(chunks - 1 - chunk, batch) for chunk, batch in forwards]
    return _in_turn(warmup, forwards, backwards)


def _in_turn(
    warmup: int, forwards: list[tuple[int, int]], backwards: list[tuple[int, int]]
) -> list[Row]:
    found: list[Row] = [(FORWARD, *place, -1, -1) for place in forwards[:warmup]]
    ahead = forwards[warmup:] + [None] * warmup
    for forward, backward in zip(ahead, backwards, strict=True):
        if forward is not None:
            found.append((FORWARD, *forward, -1, -1))
        found.append((BACKWARD, *backward, -1, -1))
    return found


# One pass.


class Passes:
    """A document's pipeline, for many lanes at a time."""

    def __init__(self, document: Document) -> None:
        self._sizes = sizes_of(document)
        pipeline = document["pipeline"]
        self._name = pipeline["schedule"]
        self._orders = orders_of(self._name, self._sizes)
        self._p2p = pipeline["p2p_ms"]
        self._weight = pipeline["backward_weight_fraction"]
        self._forward, self._backward = stage_ms(document)

    def run(self, factor: Floats, law: dict[str, Any] | None, rng: Rng) -> tuple[Floats, Floats]:
        """(lanes,) makespans and mean busy times of stages; factor (lanes, stages, T)."""
        stages = self._sizes.stages
        slowest = factor.max(axis=2)
        ended: dict[tuple[str, int, int], tuple[int, Floats]] = {}
        now = [np.zeros(len(factor)) for _ in range(stages)]
        busy, todo = np.zeros(len(factor)), [0] * stages
        while any(todo[rank] < len(order) for rank, order in enumerate(self._orders)):
            before = list(todo)
            for rank, order in enumerate(self._orders):
                while todo[rank] < len(order):
                    row = order[todo[rank]]
                    inputs = [ended.get(key) for key in self._inputs(rank, row)]
                    if None in inputs:
                        break
                    begin = now[rank]
                    for where, end in (one for one in inputs if one is not None):
                        begin = np.maximum(begin, end if where == rank else end + self._p2p)
                    taken = self._nominal(rank, row)
                    if law is None:
                        took = taken * slowest[:, rank]
                    else:
                        own = factor[:, rank]
                        took = taken * (own * drawn(law, own.shape, rng)).max(axis=1)
                    now[rank] = begin + took
                    busy += took
                    for key in self._outputs(rank, row):
                        ended[key] = rank, now[rank]
                    todo[rank] += 1
            if todo == before:
                raise AssertionError(f"{self._name}: all ranks wait")
        return np.maximum.reduce(now), busy / stages

    def _part(self, rank: int, chunk: int) -> int:
        if self._name in {"zbv", "dualpipev"}:
            return rank if chunk == 0 else 2 * self._sizes.stages - 1 - rank
        if self._name == "dualpipe":
            return rank if chunk == 0 else self._sizes.stages - 1 - rank
        return chunk * self._sizes.stages + rank

    @property
    def _last(self) -> int:
        return self._sizes.stages * self._sizes.chunks - 1

    def _inputs(self, rank: int, row: Row) -> list[tuple[str, int, int]]:
        kind, chunk, batch, back_chunk, back_batch = row
        part, found = self._part(rank, chunk), []
        if kind in {FORWARD, BOTH} and part > 0:
            found.append(("forward", part - 1, batch))
        if kind == BOTH:
            part, batch = self._part(rank, back_chunk), back_batch
        if kind in {BACKWARD, INPUT, BOTH}:
            is_last = part == self._last
            found.append(("forward", part, batch) if is_last else ("backward", part + 1, batch))
        if kind == WEIGHT:
            found.append(("backward", part, batch))
        return found

    def _outputs(self, rank: int, row: Row) -> list[tuple[str, int, int]]:
        kind, chunk, batch, back_chunk, back_batch = row
        found = []
        if kind in {FORWARD, BOTH}:
            found.append(("forward", self._part(rank, chunk), batch))
        if kind == BOTH:
            found.append(("backward", self._part(rank, back_chunk), back_batch))
        if kind in {BACKWARD, INPUT}:
            found.append(("backward", self._part(rank, chunk), batch))
        return found

    def _nominal(self, rank: int, row: Row) -> float:
        """Of dualpipe chunk 1 of a rank is the stage that mirrors it."""
        kind, chunk, _, back_chunk, _ = row

        def stage(of: int) -> int:
            return self._part(rank, of) if self._name == "dualpipe" else rank

        forward, backward = self._forward[stage(chunk)], self._backward[stage(chunk)]
        if kind == BOTH:
            backward = self._backward[stage(back_chunk)]
        share = {
            FORWARD: forward,
            BACKWARD: backward,
            INPUT: (1 - self._weight) * backward,
            WEIGHT: self._weight * backward,
            BOTH: forward + backward,
        }
        return float(share[kind] / self._sizes.chunks)


# Factors.


def drawn(law: dict[str, Any], size: tuple[int, ...], rng: Rng) -> Floats:
    """Factors of mean 1."""
    if law["kind"] == "gamma":
        return rng.gamma(law["cv"] ** -2, law["cv"] ** 2, size)
    return of_scores(law, rng.standard_normal(size))


def of_scores(law: dict[str, Any], score: Floats) -> Floats:
    """Of normal scores."""
    if law["kind"] == "normal":
        return np.asarray(1 + law["cv"] * score)
    variance = np.log1p(law["cv"] ** 2)
    found: Floats = np.exp(np.sqrt(variance) * score - variance / 2)
    return found


def lasting(document: Document, number: int, rng: Rng) -> Floats:
    """(number, GPUs that work) factors of random clusters."""
    sizes, sources = sizes_of(document), document["variability"]
    working = sizes.replicas * sizes.stages * sizes.tensor
    removed = document.get("num_spare_gpus", 0) + document.get("num_evicted_gpus", 0)
    groups = [dict(group) for group in document["slow_groups"]]
    differ = "persistent" in sources or "node" in sources
    if not differ:
        # Of GPUs that chance does not tell apart the slowest are known before they are placed.
        for group in sorted(groups, key=lambda group: group["speed_fraction"]):
            gone = min(removed, group["count"])
            group["count"] -= gone
            removed -= gone
        removed = 0
    held = working + removed
    factor = np.ones((number, held))
    order = rng.random((number, held))
    for gpu, slowness in placed(document, groups):
        factor[:, gpu], order[:, gpu] = slowness, 2.0
    ranks, first = order.argsort(axis=1), 0
    for group in groups:
        if group["placement"] == "random":
            chosen = ranks[:, first : first + group["count"]]
            np.put_along_axis(factor, chosen, 1 / group["speed_fraction"], axis=1)
            first += group["count"]
    if "persistent" in sources:
        factor *= drawn(sources["persistent"], factor.shape, rng)
    if "node" in sources:
        size = document["gpus_per_node"]
        of_node = drawn(sources["node"], (number, -(-held // size)), rng)
        factor *= np.repeat(of_node, size, axis=1)[:, :held]
    if not removed:
        return factor
    # Of equal ones the last stand by; the last that work take the places of those before them.
    by_speed = np.lexsort((np.tile(np.arange(held), (number, 1)), factor), axis=1)
    rows = []
    for row, gone in zip(factor, by_speed[:, working:], strict=True):
        places = row[:working].copy()
        last = [gpu for gpu in range(working, held) if gpu not in gone]
        places[sorted(gpu for gpu in gone if gpu < working)] = row[last]
        rows.append(places)
    return np.array(rows)


def placed(document: Document, groups: list[dict[str, Any]]) -> list[tuple[int, float]]:
    """GPUs on named stages, and on the worst ones, with their factors."""
    sizes = sizes_of(document)
    found: list[tuple[int, float]] = []
    taken = [0] * sizes.stages
    for group in groups:
        stage = group["placement"]
        for _ in range(group["count"] if isinstance(stage, int) else 0):
            replica, tensor = divmod(taken[stage], sizes.tensor)
            taken[stage] += 1
            gpu = (replica * sizes.stages + stage) * sizes.tensor + tensor
            found.append((gpu, 1 / group["speed_fraction"]))
    worst = sorted(
        (
            1 / group["speed_fraction"]
            for group in groups
            if group["placement"] == "worst"
            for _ in range(group["count"])
        ),
        reverse=True,
    )
    return found + _at_worst(document, found, worst) if worst else found


def _at_worst(
    document: Document, there: list[tuple[int, float]], slow: list[float]
) -> list[tuple[int, float]]:
    """One on each stage of the first replica that has room, the others wherever there is any."""
    sizes = sizes_of(document)
    of_replica = sizes.stages * sizes.tensor
    taken = {gpu for gpu, _ in there}
    free = [
        next(
            (
                stage * sizes.tensor + tensor
                for tensor in range(sizes.tensor)
                if stage * sizes.tensor + tensor not in taken
            ),
            None,
        )
        for stage in range(sizes.stages)
    ]
    places = [gpu for gpu in free if gpu is not None]
    number = min(len(slow), len(places))
    ways = list(permutations(places, number))
    factor = np.ones((len(ways), of_replica))
    for gpu, slowness in there:
        if gpu < of_replica:
            factor[:, gpu] = slowness
    for row, way in zip(factor, ways, strict=True):
        row[list(way)] = slow[:number]
    passes = Passes(document)
    shaped = factor.reshape(len(ways), sizes.stages, sizes.tensor)
    makespans, _ = passes.run(shaped, None, np.random.default_rng(0))
    # Of equally bad ones the first.
    chosen = int(np.argmax(makespans >= makespans.max() * (1 - 1e-12)))
    best = list(zip(ways[chosen], slow, strict=False))
    taken |= {gpu for gpu, _ in best}
    left = [gpu for gpu in range(sizes.replicas * of_replica) if gpu not in taken]
    return best + list(zip(left, slow[number:], strict=False))


def per_step(document: Document, factor: Floats, steps: int, rng: Rng) -> Iterator[Floats]:
    """(clusters, replicas, stages, T) factors of one step after the other."""
    sources, sizes = document["variability"], sizes_of(document)
    shape = (len(factor), sizes.replicas, sizes.stages, sizes.tensor)
    phi = sources.get("autocorrelation", 0.0)
    score = rng.standard_normal(shape)
    for _ in range(steps):
        found = factor.reshape(shape).copy()
        if "transient" in sources:
            law = sources["transient"]
            if law["kind"] == "gamma":
                found *= drawn(law, shape, rng)
            else:
                found *= of_scores(law, score)
                score = phi * score + np.sqrt(1 - phi**2) * rng.standard_normal(shape)
        if "spikes" in sources:
            hit = rng.random(shape) < sources["spikes"]["probability"]
            found *= np.where(hit, sources["spikes"]["slowdown"], 1.0)
        if "replica" in sources:
            found *= drawn(sources["replica"], (*shape[:2], 1, 1), rng)
        if "common" in sources:
            found *= drawn(sources["common"], (len(factor), 1, 1, 1), rng)
        yield found


# Steps.


class _Drawn(NamedTuple):
    """(draws,) steps, and mean makespans and busy times of replicas; all single makespans; ms."""

    steps: Floats
    makespans: Floats
    busy: Floats
    single: Floats


def simulated(document: Document, draws: int, rng: Rng) -> Pipes:
    """So many clusters, a step or round each; as many in every state of the episodes."""
    weights, states = [], []
    for weight, slowed in _states(document):
        weights.append(weight)
        states.append(_in_state(document, slowed, draws, rng))
    w = np.array(weights)
    mean = np.array([state.steps.mean() for state in states])
    whole = 1 / (w / mean).sum()
    passes = float(w @ [state.makespans.mean() for state in states])
    share = float(w @ [state.busy.mean() for state in states]) / passes
    one = states[0] if len(states) == 1 else None
    return Pipes(
        mean=float(whole),
        error=_error(w * (whole / mean) ** 2, [state.steps for state in states]),
        steps=np.empty(0) if one is None else one.steps,
        makespan=passes,
        makespan_error=_error(w, [state.makespans for state in states]),
        makespans=np.empty(0) if one is None else one.single,
        bubble=1 - share,
        # A ratio of means, by the delta method.
        bubble_error=_error(w / passes, [state.busy - share * state.makespans for state in states]),
    )


def _error(weight: Floats, of_states: list[Floats]) -> float:
    """Standard error of a weighted sum of means over draws."""
    errors = [values.std(ddof=1) / np.sqrt(len(values)) for values in of_states]
    return float(np.sqrt(((weight * np.array(errors)) ** 2).sum()))


def _states(document: Document) -> Iterator[tuple[float, list[bool]]]:
    """Which working GPUs are in an episode, and the share of the time."""
    sizes = sizes_of(document)
    working = sizes.replicas * sizes.stages * sizes.tensor
    episodes = document["variability"].get("episodes")
    if episodes is None:
        yield 1.0, [False] * working
        return
    p = 1 - np.exp(-episodes["rate_per_gpu_day"] * episodes["mean_hours"] / 24)
    for slowed in product([False, True], repeat=working):
        yield p ** sum(slowed) * (1 - p) ** (working - sum(slowed)), list(slowed)


def _in_state(document: Document, slowed: list[bool], draws: int, rng: Rng) -> _Drawn:
    sizes, waiting = sizes_of(document), document["synchronization"]
    factor = lasting(document, draws, rng)
    factor[:, slowed] *= document["variability"].get("episodes", {}).get("severity", 1.0)
    steps = waiting.get("steps", 1) if waiting["kind"] == "local_steps" else 1
    passes, law = Passes(document), document["pipeline"].get("per_op_jitter")
    makespans, busy = np.zeros((2, draws, sizes.replicas))
    single = []
    for of_step in per_step(document, factor, steps, rng):
        lanes = of_step.reshape(-1, sizes.stages, sizes.tensor)
        found = [values.reshape(draws, -1) for values in passes.run(lanes, law, rng)]
        makespans += found[0] / steps
        busy += found[1] / steps
        single.append(found[0].ravel())
    backup = waiting["count"] if waiting["kind"] == "backup_workers" else 0
    slowest = np.sort(makespans, axis=1)[:, sizes.replicas - 1 - backup]
    rest = slowest + exchange_ms(document) / steps
    load = document["load_ms"]
    hides = document["overlap"]["load_prefetch"]
    step = np.maximum(load, rest) if hides else load + rest
    return _Drawn(step, makespans.mean(axis=1), busy.mean(axis=1), np.concatenate(single))
