"""Record what each rank takes by itself, without its wait for others, for `trainard calibrate`.

Copy this file into your project (it needs PyTorch only), and wrap the loader of the training loop:

    recorder = Recorder(model, "timings")
    for batch in recorder.steps(loader):

A rank's backward pass ends where hooks on its gradients say so, before DDP waits for the others.
Events of a GPU are read when they are over: no step is held up. Not for FSDP (use the profiler).
"""

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch


class Recorder:
    def __init__(self, model: Any, folder: str, first_step: int = 0, warmup: int = 10) -> None:
        parameters = [part for part in model.parameters() if part.requires_grad]
        self.gpu, self.pending = parameters[0].is_cuda, deque[Any]()
        self.step, self.first = first_step, first_step + warmup
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        node = os.environ.get("GROUP_RANK", rank // int(os.environ.get("LOCAL_WORLD_SIZE", "8")))
        self.line = f"{{}},{rank},{{:.4f}},{{:.4f}},{{:.4f}},{node}\n"
        Path(folder).mkdir(parents=True, exist_ok=True)
        # A file for each start, so that nothing is written over; each line is flushed.
        self.file = Path(folder, f"rank{rank:06d}-{time.time_ns()}.csv").open("w", buffering=1)
        self.file.write("step,rank,load_ms,compute_ms,step_ms,node\n")
        for part in parameters:
            part.register_hook(self.gradient)

    def now(self) -> Any:
        if self.gpu:
            return torch.cuda.current_stream().record_event(torch.cuda.Event(enable_timing=True))
        return time.perf_counter()

    def gradient(self, _: Any) -> None:
        self.own_end = self.now()  # That of the last gradient stays.

    def steps(self, loader: Iterable[Any]) -> Iterator[Any]:
        begin = self.now()
        for batch in loader:
            start, self.own_end = self.now(), None
            yield batch
            end = self.now()
            if self.own_end and self.step >= self.first:
                self.pending.append((self.step, begin, start, start, self.own_end, begin, end))
            while self.pending and (not self.gpu or self.pending[0][-1].query()):
                step, *at = self.pending.popleft()
                pairs = zip(at[::2], at[1::2], strict=True)
                times = [a.elapsed_time(b) if self.gpu else 1e3 * (b - a) for a, b in pairs]
                with suppress(OSError):  # A full disk does not end the training.
                    self.file.write(self.line.format(step, *times))
            self.step, begin = self.step + 1, end
