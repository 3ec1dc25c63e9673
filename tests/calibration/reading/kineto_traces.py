"""Small traces as the PyTorch profiler writes them; times in us."""

import gzip
import hashlib
import io
import json
from typing import Any

from service.calibration.options import CalibrationOptions
from service.calibration.reading.kineto import read_kineto
from service.calibration.reading.open_file import OpenFile
from service.calibration.timings import Timings

Event = dict[str, Any]
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
GEMM = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x5_tn_align4>(Params)"
COMPUTE_STREAM, COMMUNICATION_STREAM = 7, 20


def kernel(
    name: str, start: float, duration: float, *, stream: int = COMPUTE_STREAM, **more: Any
) -> Event:
    arguments = {"device": 0, "stream": stream, **more.pop("args", {})}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": start,
        "dur": duration,
        "args": arguments,
        **more,
    }


def gemm(start: float, duration: float, **more: Any) -> Event:
    return kernel(GEMM, start, duration, **more)


def all_reduce(start: float, duration: float, **more: Any) -> Event:
    return kernel(ALL_REDUCE, start, duration, stream=COMMUNICATION_STREAM, **more)


def step(number: int, start: float, duration: float) -> Event:
    return {
        "ph": "X",
        "cat": "user_annotation",
        "name": f"ProfilerStep#{number}",
        "pid": 4037,
        "tid": 4037,
        "ts": start,
        "dur": duration,
    }


def step_on_gpu(
    number: int, start: float, duration: float, *, stream: int = COMPUTE_STREAM
) -> Event:
    return step(number, start, duration) | {"cat": "gpu_user_annotation", "pid": 0, "tid": stream}


def launch(start: float, correlation: int) -> Event:
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "pid": 4037,
        "tid": 4037,
        "ts": start,
        "dur": 5,
        "args": {"correlation": correlation},
    }


def whole(events: list[Event], rank: int | None = None, world_size: int = 2) -> Event:
    document: Event = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100"}]}
    if rank is not None:
        about = {"backend": "nccl", "rank": rank, "world_size": world_size}
        document["distributedInfo"] = about
    return document | {"traceEvents": events, "displayTimeUnit": "ms"}


def opened(content: object, name: str = "trace.json") -> OpenFile:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return OpenFile(
        name=name,
        stream=io.BytesIO(data),
        num_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def packed(content: object, name: str = "trace.json.gz") -> OpenFile:
    return opened(gzip.compress(json.dumps(content).encode()), name)


def read(*files: OpenFile) -> Timings:
    return read_kineto(files, CalibrationOptions())
