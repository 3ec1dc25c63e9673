"""What is left of the disk that the embedded database lies on."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from service.db.engine import Database

# Less is taken up by one request and the log beside the file (WAL) at once.
MIN_FREE_BYTES: Final = 4 * 1024 * 1024


def free_disk_bytes(database: Database) -> int | None:
    """Bytes that may still be written beside the embedded file; None where nobody can tell.

    PostgreSQL's disk is that of another machine, or as good as that.
    """
    if not database.is_sqlite:
        return None
    folder = Path(database.url.database or "").parent
    with suppress(OSError):
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize
    return None
