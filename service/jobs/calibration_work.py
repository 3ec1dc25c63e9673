"""Files of observed timings, read and fitted in a process of their own.

A hostile file costs that process, which has limits, and nobody else. There is one per call.
"""

import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import TypeVar

import structlog

from service.calibration.findings import Findings, OverlapAudit
from service.calibration.options import CalibrationOptions
from service.calibration.reading.limits import DEFAULT_LIMITS, ReadingLimits
from service.calibration.refusals import Fault, TimingsRefusedError, refused
from service.jobs.calibration_errands import Errand, SpooledFile, out_of_memory, start
from service.jobs.calibration_messages import (
    Audited,
    Failed,
    Found,
    ReadSoFar,
    Refused,
    decode,
)

__all__ = ["ReadingCanceledError", "ReadingFailedError", "SpooledFile", "audit", "find"]

Answer = TypeVar("Answer", Found, Audited)

# Between two questions whether anybody still waits for it.
_POLL_S = 0.1
# It is over once it sent the end; what hangs then is killed.
_END_S = 5.0
# Of whoever ends services, before the process turns a deaf ear to them.
_SIGNALS_TO_END = frozenset((signal.SIGHUP, signal.SIGINT, signal.SIGTERM))

log = structlog.get_logger()


class ReadingCanceledError(Exception):
    """Nobody waits for the findings any more; the process was ended."""


class ReadingFailedError(Exception):
    """A mistake of the program, not of the files: the process's account of it, if it sent one."""


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
    errand = Errand(files=tuple(files), options=options, limits=limits)
    return _told(errand, Found, progress, is_canceled).findings


def audit(
    files: Sequence[SpooledFile],
    options: CalibrationOptions,
    limits: ReadingLimits = DEFAULT_LIMITS,
    progress: Callable[[int], None] = lambda _: None,
    is_canceled: Callable[[], bool] = lambda: False,
) -> OverlapAudit:
    """Likewise whether communication overlaps, also of files too short to fit anything to."""
    errand = Errand(files=tuple(files), options=options, limits=limits, overlap_only=True)
    return _told(errand, Audited, progress, is_canceled).audit


def _told(
    errand: Errand,
    answer: type[Answer],
    progress: Callable[[int], None],
    is_canceled: Callable[[], bool],
) -> Answer:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=start, args=(sender, errand), name="reading", daemon=True)
    with receiver:
        process.start()
        # Of this end nothing is kept, so that the other's death is the end of the stream.
        sender.close()
        try:
            message = _heard(receiver, process, errand.limits, progress, is_canceled)
            if not isinstance(message, answer):
                raise ReadingFailedError(f"the reading process sent {message!r:.80}")
            return message
        finally:
            _end(process)


def _heard(
    receiver: Connection,
    process: SpawnProcess,
    limits: ReadingLimits,
    progress: Callable[[int], None],
    is_canceled: Callable[[], bool],
) -> Found | Audited:
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
            case Found() | Audited():
                return message
            case Refused():
                raise TimingsRefusedError(*message.faults)
            case Failed():
                raise ReadingFailedError(message.trace)


def _end(process: SpawnProcess) -> None:
    if process.exitcode is None:
        process.kill()
    process.join(_END_S)
    process.close()


def _death(exit_code: int | None, limits: ReadingLimits) -> Exception:
    """Why a process that sent no end is over: only what files can bring about is their fault."""
    log.warning("reading_process_died", exit_code=exit_code)
    if exit_code is None or exit_code >= 0 or -exit_code in _SIGNALS_TO_END:
        # An exception before it could read or after it had, as of a module that is not there.
        return ReadingFailedError(
            f"the reading process ended with exit code {exit_code} and sent no outcome; what it "
            "wrote of that stands on the standard error of whoever started it"
        )
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
