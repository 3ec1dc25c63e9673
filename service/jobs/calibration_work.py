"""Files of observed timings, read and fitted in a process of their own.

A hostile file costs that process, which has limits, and nobody else. There is one per call.
"""

import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import structlog

from service.calibration.findings import Findings
from service.calibration.options import CalibrationOptions
from service.calibration.reading.limits import DEFAULT_LIMITS, ReadingLimits
from service.calibration.refusals import Fault, TimingsRefusedError, refused
from service.jobs.calibration_messages import Failed, Found, ReadSoFar, Refused, decode
from service.jobs.calibration_process import SpooledFile, out_of_memory, work

__all__ = ["ReadingCanceledError", "ReadingFailedError", "SpooledFile", "find"]

# Between two questions whether anybody still waits for it.
_POLL_S = 0.1
# It is over once it sent the end; what hangs then is killed.
_END_S = 5.0

log = structlog.get_logger()


class ReadingCanceledError(Exception):
    """Nobody waits for the findings any more; the process was ended."""


class ReadingFailedError(Exception):
    """A mistake of the program, not of the files: the process's own account of it."""


def find(
    files: Sequence[SpooledFile],
    options: CalibrationOptions,
    limits: ReadingLimits = DEFAULT_LIMITS,
    progress: Callable[[int], None] = lambda _: None,
    is_canceled: Callable[[], bool] = lambda: False,
) -> Findings:
    """What the files tell; `progress` is called with the bytes read so far, of all files.

    Raises TimingsRefusedError, also when a limit ends the process, ReadingCanceledError and
    ReadingFailedError.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=work, args=(sender, tuple(files), options, limits), name="reading", daemon=True
    )
    with receiver:
        process.start()
        # Of this end nothing is kept, so that the other's death is the end of the stream.
        sender.close()
        try:
            return _heard(receiver, process, limits, progress, is_canceled)
        finally:
            _end(process)


def _heard(
    receiver: Connection,
    process: SpawnProcess,
    limits: ReadingLimits,
    progress: Callable[[int], None],
    is_canceled: Callable[[], bool],
) -> Findings:
    begun = time.monotonic()
    while True:
        if is_canceled():
            raise ReadingCanceledError
        if time.monotonic() - begun > limits.elapsed_s:
            raise refused(
                "file_too_large",
                f"reading and fitting took over {limits.elapsed_s} s, which is the limit",
            )
        if not receiver.poll(_POLL_S):
            continue
        try:
            message = decode(receiver.recv_bytes())
        except (EOFError, OSError):
            process.join()
            raise _death(process.exitcode, limits) from None
        match message:
            case ReadSoFar():
                progress(message.num_bytes)
            case Found():
                return message.findings
            case Refused():
                raise TimingsRefusedError(*message.faults)
            case Failed():
                raise ReadingFailedError(message.trace)


def _end(process: SpawnProcess) -> None:
    if process.exitcode is None:
        process.kill()
    process.join(_END_S)
    process.close()


def _death(exit_code: int | None, limits: ReadingLimits) -> TimingsRefusedError:
    """Why a process that sent no end is over."""
    log.warning("reading_process_died", exit_code=exit_code)
    if exit_code == -signal.SIGXCPU:
        return refused(
            "file_too_large",
            f"reading and fitting took over {limits.processor_s} s of processor time, which is the "
            "limit: give fewer steps, every tenth of a long run tells the same",
        )
    if exit_code == -signal.SIGKILL:
        return refused(
            "file_too_large",
            "the reading process was killed, as a machine does that is short of memory",
        )
    reason: Fault = out_of_memory(limits)
    return refused(
        "file_too_large",
        f"the reading process died (exit code {exit_code}), as one does beyond its memory, or of a "
        f"damaged file; {reason.detail}",
    )
