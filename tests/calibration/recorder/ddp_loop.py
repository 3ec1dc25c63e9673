"""A real DDP loop of several processes of which one is slow; run by an interpreter with torch.

    python ddp_loop.py WORLD_SIZE SLOW_RANK NUM_STEPS FOLDER

Compute is slept, so that other programs of the machine do not move it; how long differs from step
to step alike on all ranks, as with real data. The recorder writes into FOLDER/own; what a timer
around forward and backward says, which waits for all, is written into FOLDER/around. The last rank
ends as in a crash: nothing is closed.
"""

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[3] / "service" / "calibration" / "recorder"))
from trainard_recorder import Recorder

FORWARD_S, BACKWARD_S, LOAD_S = 0.2, 0.4, 0.02
SLOWDOWN = 1.3
WARMUP = 2


class Slept(torch.autograd.Function):  # type: ignore[misc]  # torch is not installed here
    """Takes time in both directions."""

    @staticmethod
    def forward(ctx: Any, values: Any, factor: float) -> Any:
        time.sleep(FORWARD_S * factor)
        ctx.factor = factor
        return values * 1

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        time.sleep(BACKWARD_S * ctx.factor)
        return gradient, None


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, slowdown: float) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
        self.slowdown = slowdown

    def forward(self, batch: tuple[Any, float]) -> Any:
        values, factor = batch
        return Slept.apply(self.layers(values), factor * self.slowdown).sum()


def batches(num_steps: int) -> Iterator[tuple[Any, float]]:
    together = random.Random(7)
    for _ in range(num_steps):
        time.sleep(LOAD_S)
        yield torch.ones(8, 64), together.uniform(0.8, 1.2)


def train(rank: int, world_size: int, slow_rank: int, num_steps: int, folder: Path) -> None:
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world_size)
    model = DistributedDataParallel(Model(SLOWDOWN if rank == slow_rank else 1.0))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    recorder = Recorder(model, str(folder / "own"), warmup=WARMUP)
    with (folder / "around" / f"rank{rank}.csv").open("w", buffering=1) as around:
        around.write("step,rank,compute_ms\n")
        for step, batch in enumerate(recorder.steps(batches(num_steps))):
            start = time.perf_counter()
            model(batch).backward()
            took_ms = 1e3 * (time.perf_counter() - start)
            if step >= WARMUP:
                around.write(f"{step},{rank},{took_ms:.4f}\n")
            optimizer.step()
            optimizer.zero_grad()
        dist.barrier()
        if rank == world_size - 1:
            os._exit(0)
        dist.destroy_process_group()


def main() -> None:
    """Fork the ranks: importing torch takes several seconds, once."""
    # Where it may: what sleeps is then woken in time, however busy the machine is.
    with suppress(PermissionError):
        os.nice(-20)
    world_size, slow_rank, num_steps = (int(part) for part in sys.argv[1:4])
    folder = Path(sys.argv[4])
    (folder / "around").mkdir()
    ranks = []
    for rank in range(world_size):
        process = os.fork()
        if process == 0:
            train(rank, world_size, slow_rank, num_steps, folder)
            os._exit(0)
        ranks.append(process)
    failed = [rank for rank, process in enumerate(ranks) if os.waitpid(process, 0)[1]]
    sys.exit(f"ranks {failed} failed" if failed else 0)


if __name__ == "__main__":
    main()
