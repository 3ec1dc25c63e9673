"""Schedules in which a rank runs all its forwards before its first backward."""

import numpy as np

from service.model.pipeline.operations import BACKWARD, FORWARD, Integers, operations
from service.model.pipeline.schedule import Schedule, each_rank


def gpipe_order(rank: int, stages: int, microbatches: int, chunks: int) -> Integers:
    """Forwards, then backwards, both from the first micro-batch on.

    Source: torch.distributed.pipelining, ScheduleGPipe (2.13).
    """
    del rank, stages, chunks
    every = np.arange(microbatches)
    return np.concatenate([operations(FORWARD, 0, every), operations(BACKWARD, 0, every)])


def looped_bfs_order(rank: int, stages: int, microbatches: int, chunks: int) -> Integers:
    """Chunk by chunk, all micro-batches of it; backwards in exactly the reverse order.

    Source: Lamy-Poirier 2022, arXiv 2211.05953; torch, ScheduleLoopedBFS (2.13).
    """
    del rank, stages
    chunk = np.repeat(np.arange(chunks), microbatches)
    microbatch = np.tile(np.arange(microbatches), chunks)
    backwards = operations(BACKWARD, chunk[::-1], microbatch[::-1])
    return np.concatenate([operations(FORWARD, chunk, microbatch), backwards])


def _is_single(stages: int, microbatches: int) -> bool:
    """One micro-batch a pass."""
    return stages >= 1 and microbatches == 1


NAIVE = Schedule(
    name="naive",
    order=each_rank(gpipe_order),
    rule="naive runs one micro-batch and one chunk per stage",
    fits=_is_single,
)
GPIPE = Schedule(name="gpipe", order=each_rank(gpipe_order), rule="gpipe has one chunk per stage")
LOOPED_BFS = Schedule(
    name="looped_bfs",
    order=each_rank(looped_bfs_order),
    rule="looped_bfs needs at least one chunk per stage",
    max_chunks=None,
)
