"""What a reading process is started with.

The process imports what reads and fits: the service that starts it needs none of that, and is ready
half a second sooner without.
"""

import importlib
from multiprocessing.connection import Connection

from msgspec import Struct

from service.calibration.options import CalibrationOptions
from service.calibration.reading.limits import ReadingLimits
from service.calibration.refusals import Fault
from service.jobs.parent_processes import end_with_parent

_PROCESS = "service.jobs.calibration_process"


class SpooledFile(Struct, frozen=True, kw_only=True):
    """A file that waits to be read: the name that it came under, and where it lies."""

    name: str
    path: str
    num_bytes: int
    sha256: str


class Errand(Struct, frozen=True, kw_only=True):
    """What a reading process is to do: read the files, then fit them or audit their overlap."""

    files: tuple[SpooledFile, ...]
    options: CalibrationOptions
    limits: ReadingLimits
    overlap_only: bool = False


def start(connection: Connection, errand: Errand) -> None:
    """In the process: from now on end with the parent, then import what does the work."""
    end_with_parent()
    importlib.import_module(_PROCESS).work(connection, errand)


def out_of_memory(limits: ReadingLimits) -> Fault:
    """The reason when reading takes more memory than it may."""
    return Fault(
        code="file_too_large",
        detail=f"reading and fitting took over {limits.memory_bytes} bytes of memory, which is the "
        "limit: give fewer steps, every tenth of a long run tells the same",
    )
