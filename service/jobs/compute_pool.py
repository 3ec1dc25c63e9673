"""Processes that compute chunks; a chunk that kills its process is found out and named.

When a pool's process dies, every chunk that the pool had in hand is lost and nobody knows whose
fault it was. Each of them is then computed in a process of its own: only the guilty one dies again.
"""

import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Protocol, TypeVar

import structlog

from service.jobs.batch_runs import ChunkWork
from service.jobs.chunks import (
    CHUNK_POINTS,
    ComputedChunk,
    Piece,
    compute_chunk,
    compute_piece,
    joined_pieces,
)
from service.jobs.parent_processes import end_with_parent

# Alone, so that it is the chunk's own doing; twice, since a machine may kill for want of memory.
ATTEMPTS_ALONE = 2
# Below it starting a process, and sending the columns, costs more than the event loop's stall;
# not of points that take long, whose chunks are smaller.
INLINE_POINTS = 20_000
# Between two pieces of a long chunk it is seen whether anybody still wants it.
PIECE_S = 2.0
# Of the slowest points, 2 s each, even so many take long.
FIRST_PIECE_POINTS = 4
# How often it is looked whether a process is still there that has not answered.
LOOK_S = 1.0

T = TypeVar("T")

log = structlog.get_logger()


class PoisonedChunkError(Exception):
    """The chunk killed each process that computed it."""


class Keeper(Protocol):
    """Keeps the pieces of one chunk, so that whoever begins it again goes on after them."""

    def load(self) -> Sequence[Piece]:
        """The kept pieces from the chunk's first point on, without a gap."""

    def add(self, piece: Piece, took_s: float) -> None:
        """Take the piece after those before, which took so many seconds to compute."""


class ComputePool:
    """Computes chunks off the calling thread; it may be called from many threads."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def compute(
        self,
        work: ChunkWork,
        between: Callable[[], None] = lambda: None,
        keeper: Keeper | None = None,
    ) -> ComputedChunk:
        """The chunk's encoded blocks; raises `PoisonedChunkError`, and what computing raises.

        A chunk whose points take long is computed in pieces; before each `between` is called, which
        may raise to give the rest up. The `keeper` is given each of them but the last, after which
        the chunk is stored.
        """
        if work.chunk_points < CHUNK_POINTS:
            return self._in_pieces(work, between, keeper)
        arguments = work.chunk, work.spans, work.columns, work.chunk_points
        if work.num_points <= INLINE_POINTS:
            return compute_chunk(*arguments)
        return self._in_process(work, partial(compute_chunk, *arguments))

    def _in_pieces(
        self, work: ChunkWork, between: Callable[[], None], keeper: Keeper | None
    ) -> ComputedChunk:
        """Pieces of about PIECE_S each: how long one took tells the size of the next."""
        pieces = list(keeper.load()) if keeper is not None else []
        start = work.first_point + sum(piece.num_points for piece in pieces)
        stop, size = work.first_point + work.num_points, FIRST_PIECE_POINTS
        while start < stop:
            between()
            began = time.monotonic()
            end = min(start + size, stop)
            act = partial(compute_piece, work.spans, work.columns, start, end)
            pieces.append(self._in_process(work, act))
            start = end
            took_s = max(time.monotonic() - began, 1e-3)
            if keeper is not None and start < stop:
                keeper.add(pieces[-1], took_s)
            size = min(max(1, int(size * PIECE_S / took_s)), 4 * size)
        return joined_pieces(work.chunk, pieces)

    def _in_process(self, work: ChunkWork, act: Callable[[], T]) -> T:
        pool = self._ready()
        try:
            return _result(pool, pool.submit(act))
        except BrokenProcessPool:
            log.warning("compute_process_died", batch=str(work.batch_id), chunk=work.chunk)
            self._discard(pool)
        return self._alone(work, act)

    def close(self) -> None:
        """End the processes; chunks that are being computed are lost."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def _alone(self, work: ChunkWork, act: Callable[[], T]) -> T:
        for attempt in range(1, ATTEMPTS_ALONE + 1):
            with _new_pool(1) as pool:
                try:
                    return _result(pool, pool.submit(act))
                except BrokenProcessPool:
                    log.warning(
                        "chunk_killed_its_process",
                        batch=str(work.batch_id),
                        chunk=work.chunk,
                        attempt=attempt,
                    )
        raise PoisonedChunkError(
            f"chunk {work.chunk} (points {work.first_point} to "
            f"{work.first_point + work.num_points - 1}) killed its process {ATTEMPTS_ALONE} times"
        )

    def _ready(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = _new_pool(self.processes)
            return self._pool

    def _discard(self, broken: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is broken:
                self._pool = None
        broken.shutdown(wait=False, cancel_futures=True)


def _result(pool: ProcessPoolExecutor, answer: Future[T]) -> T:
    """What the process answers; raises `BrokenProcessPool` when one of the pool's has died.

    The pool sees that itself, unless the process died within its answer: then its thread waits for
    the rest for ever, since this process too could still write it.
    """
    was_dead = False
    while not wait((answer,), timeout=LOOK_S).done:
        is_dead = any(process.exitcode is not None for process in _processes(pool))
        # The second time: the pool has had time to see it, and to hand on what is whole.
        if is_dead and was_dead:
            _end_answers(pool)
        was_dead = is_dead
    return answer.result()


def _processes(pool: ProcessPoolExecutor) -> Sequence[BaseProcess]:
    # None once the pool is shut down.
    return list((pool._processes or {}).values())  # noqa: SLF001 - no public way to ask for them


def _end_answers(pool: ProcessPoolExecutor) -> None:
    """Let nobody be left who could write an answer: the pool's thread finds it broken off."""
    for process in _processes(pool):
        process.kill()
    vars(pool)["_result_queue"]._writer.close()  # noqa: SLF001 - no public way either


def _new_pool(processes: int) -> ProcessPoolExecutor:
    # Spawned, not forked: the serving process has threads. A C call that holds the GIL
    # for 0.3 s froze the event loop for as long from a thread, 22-54 ms from a process.
    return ProcessPoolExecutor(
        max_workers=processes,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=end_with_parent,
    )
