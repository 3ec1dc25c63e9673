"""A compute process that is killed within its answer, as when the machine has no memory left."""

import inspect
import os
import signal
import struct
from typing import Any
from uuid import UUID

import pytest

from service.jobs import compute_pool
from service.jobs.batch_runs import ChunkWork
from service.jobs.chunks import CHUNK_POINTS, ItemSpan
from service.jobs.compute_pool import ATTEMPTS_ALONE, ComputePool, PoisonedChunkError

WHOLE = ItemSpan(position=0, scenario=b"{}", axes=b"[]", first_point=0, num_points=4 * CHUNK_POINTS)
WORK = ChunkWork(
    batch_id=UUID(int=1),
    team_id=UUID(int=2),
    chunk=3,
    columns=(),
    spans=[WHOLE],
    item_ids={},
    source=None,
    is_first=False,
)


def half_an_answer(*_: Any) -> None:
    """In the compute process: announce a megabyte, write less, and die."""
    frame = inspect.currentframe()
    while frame is not None and "result_queue" not in frame.f_locals:
        frame = frame.f_back
    assert frame is not None
    answers = frame.f_locals["result_queue"]._writer
    os.write(answers.fileno(), struct.pack("!i", 1_000_000) + b"half")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_dies_within_its_answer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_pool, "LOOK_S", 0.1)
    monkeypatch.setattr(compute_pool, "compute_chunk", half_an_answer)
    pool = ComputePool(1)
    with pytest.raises(PoisonedChunkError, match=f"chunk 3 .* {ATTEMPTS_ALONE} times"):
        pool.compute(WORK)
    pool.close()
