"""Data-parallel steps with bucketed reduction, simulated in max-plus on one channel.

    e_k = max(max_i r_ik, e_{k-1}) + c_k

Bucket k of rank i is ready at r_ik, reduced in order, at cost c_k. A rank's kernel starts when its
own bucket is ready and the one before is done, and ends with all others. All ranks begin a step
together. Nothing of the service is used to make the times, and the truth is that of step times:
exposed = T - T_nocomm, with T_nocomm the compute of the slowest rank.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.calibration.timings import Collectives, Timings

Array = NDArray[np.float64]


class Job(NamedTuple):
    """Times in ms; spreads as coefficients of variation; `slow` multiplies rank 0's compute."""

    num_ranks: int = 8
    num_buckets: int = 10
    forward_ms: float = 100.0
    backward_ms: float = 200.0
    transfer_ms: float = 100.0
    slow: float = 1.0
    compute_cv: float = 0.0
    transfer_cv: float = 0.0
    carry_over: float = 0.0


class Run(NamedTuple):
    """(steps, ranks, buckets) kernels from start to stop; (steps, ranks) compute from 0 to end."""

    start: Array
    stop: Array
    compute_end: Array
    cost: Array

    @property
    def exposed(self) -> Array:
        """Of every step, in ms."""
        exposed: Array = self.stop[:, 0, -1] - self.compute_end.max(axis=1)
        return exposed

    @property
    def hidden_share(self) -> float:
        """The truth of these steps."""
        return float(1 - self.exposed.sum() / self.cost.sum())


def simulate(job: Job, num_steps: int, seed: int) -> Run:
    random = np.random.default_rng(seed)
    shape = (num_steps, job.num_ranks)
    noise = random.normal(size=shape)
    for step in range(1, num_steps):
        kept = np.sqrt(1 - job.carry_over**2)
        noise[step] = job.carry_over * noise[step - 1] + kept * noise[step]
    sigma = np.sqrt(np.log1p(job.compute_cv**2))
    factor = np.exp(sigma * noise - sigma**2 / 2)
    factor[:, 0] *= job.slow
    shares = (np.arange(job.num_buckets) + 1) / job.num_buckets
    ready = factor[..., np.newaxis] * (job.forward_ms + job.backward_ms * shares)
    sigma = np.sqrt(np.log1p(job.transfer_cv**2))
    drawn = random.normal(size=(num_steps, job.num_buckets))
    cost = np.exp(sigma * drawn - sigma**2 / 2) * job.transfer_ms / job.num_buckets
    start, stop = np.empty_like(ready), np.empty_like(ready)
    done = np.zeros(num_steps)
    for bucket in range(job.num_buckets):
        own = ready[:, :, bucket]
        start[:, :, bucket] = np.maximum(own, done[:, np.newaxis])
        done = np.maximum(own.max(axis=1), done) + cost[:, bucket]
        stop[:, :, bucket] = done[:, np.newaxis]
    return Run(start, stop, ready[:, :, -1], cost)


def collectives_of(run: Run, ranks: list[int], members: int = 0) -> Collectives:
    """Kernels of the ranks that were profiled, rank by rank."""
    num_steps, _, num_buckets = run.start.shape
    start = np.concatenate([run.start[:, rank].ravel() for rank in ranks])
    stop = np.concatenate([run.stop[:, rank].ravel() for rank in ranks])
    end = np.concatenate([np.repeat(run.compute_end[:, rank], num_buckets) for rank in ranks])
    has_compute = end > start
    num_kernels = num_steps * num_buckets * len(ranks)
    before_stop = np.maximum(stop - end, 0.0)
    return Collectives(
        rank=np.repeat(ranks, num_steps * num_buckets),
        step=np.tile(np.repeat(np.arange(num_steps), num_buckets), len(ranks)),
        order=np.tile(np.arange(num_buckets), num_steps * len(ranks)),
        name=("ncclDevKernel_AllReduce_Sum_f32_RING_LL",) * num_kernels,
        members=np.full(num_kernels, members),
        duration_ms=stop - start,
        first=np.concatenate([[0], np.cumsum(has_compute)]),
        before_end_start_ms=(stop - start)[has_compute],
        before_end_stop_ms=before_stop[has_compute],
    )


def timings_of(run: Run, ranks: list[int], world_size: int | None = None) -> Timings:
    """What reading the traces of these ranks gives."""
    num_steps = len(run.start)
    return Timings(
        format="kineto",
        files=(),
        steps=np.arange(num_steps),
        ranks=np.array(ranks),
        compute_ms=run.compute_end[:, ranks],
        communication_ms=(run.stop - run.start).sum(axis=2)[:, ranks],
        step_ms=np.repeat(run.stop[:, :1, -1], len(ranks), axis=1),
        world_size=world_size,
        includes_wait=False,
        collectives=collectives_of(run, ranks),
    )
