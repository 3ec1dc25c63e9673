"""What runs in a reading process: limits first, then reading and fitting, then the answer."""

import contextlib
import math
import resource
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from service.calibration.fit import fit
from service.calibration.overlap import audit_alone
from service.calibration.reading.door import OpenFile, read_timings
from service.calibration.reading.limits import ReadingLimits
from service.calibration.refusals import TimingsRefusedError
from service.jobs.calibration_errands import Errand, out_of_memory
from service.jobs.calibration_messages import (
    Audited,
    Failed,
    Found,
    Message,
    ReadSoFar,
    Refused,
    encode,
)

# Of bytes read between two messages.
TELL_EVERY_BYTES = 4 << 20
_STATM = Path("/proc/self/statm")


def work(connection: Connection, errand: Errand) -> None:
    """Do it and send the end; the process is then over."""
    limit_process(errand.limits)
    try:
        connection.send_bytes(encode(_outcome(connection, errand)))
    except MemoryError:
        connection.send_bytes(encode(Refused(faults=(out_of_memory(errand.limits),))))


def _outcome(connection: Connection, errand: Errand) -> Message:
    told = 0

    def tell(num_bytes: int) -> None:
        nonlocal told
        if num_bytes - told >= TELL_EVERY_BYTES:
            told = num_bytes
            connection.send_bytes(encode(ReadSoFar(num_bytes=num_bytes)))

    try:
        with contextlib.ExitStack() as stack:
            opened = [
                OpenFile(
                    name=file.name,
                    stream=stack.enter_context(Path(file.path).open("rb")),
                    num_bytes=file.num_bytes,
                    sha256=file.sha256,
                )
                for file in errand.files
            ]
            timings = read_timings(opened, errand.options, tell, errand.limits)
        if errand.overlap_only:
            return Audited(audit=audit_alone(timings, errand.options))
        return Found(findings=fit(timings, errand.options))
    except TimingsRefusedError as error:
        return Refused(faults=error.faults)
    except MemoryError:
        return Refused(faults=(out_of_memory(errand.limits),))
    except Exception:  # noqa: BLE001
        # Whatever it is, whoever started this process has to hear of it.
        return Failed(trace=traceback.format_exc())


def limit_process(limits: ReadingLimits) -> None:
    """Bound memory and processor time beyond what it has; no dump, and no file written."""
    # Arrow's own allocators set much more aside than they use, which would count.
    pa.set_memory_pool(pa.system_memory_pool())
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    # What is mapped now is code and the stacks of threads, more of them on larger machines.
    has_pages = int(_STATM.read_text().split()[0])
    most = has_pages * resource.getpagesize() + limits.memory_bytes
    _limit(resource.RLIMIT_AS, most)
    _limit(resource.RLIMIT_CPU, math.ceil(time.process_time()) + limits.processor_s)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)


def _limit(which: int, most: int) -> None:
    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # The hard limit of processor time is a second later: the soft one's signal tells what it was.
    last = most + 1 if which == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY else most
    resource.setrlimit(which, (most, last))
