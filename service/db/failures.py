"""The errors of a database that cannot be reached or understood, for rooms that speak no SQL."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic.util import CommandError
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
)

UNUSABLE_DATABASE: tuple[type[Exception], ...] = (
    ArgumentError,
    CommandError,
    DBAPIError,
    NoSuchModuleError,
    ValueError,
)


class NotStoredError(Exception):
    """The database refuses to store something, and trying again at once would not help."""


_FULL = "database or disk is full"
_BROKEN = "disk I/O error"
_INSUFFICIENT_RESOURCES = "53"
_DISK_FULL = "53100"


@contextmanager
def refusals_named() -> Iterator[None]:
    """Turn the refusal of a full disk, or of rows that clash, into a short `NotStoredError`.

    The driver's own error carries every value of the statement: megabytes, for a chunk's blocks,
    which the engine would keep. Errors that pass by themselves (a lost connection, a lock) stay.
    """
    try:
        yield
    except IntegrityError as error:
        raise NotStoredError(_first_line(error)) from None
    except OperationalError as error:
        if _state(error).startswith(_INSUFFICIENT_RESOURCES) or disk_fault(error):
            raise NotStoredError(_first_line(error)) from None
        raise


def disk_fault(error: OperationalError) -> str | None:
    """In words for callers, that the disk takes nothing; None when the reason is another one."""
    reason = _first_line(error)
    if _state(error) == _DISK_FULL or reason.startswith(_FULL):
        return "the database's disk is full"
    # SQLite says so of a full disk too, where it cannot make its files beside the database.
    if reason.startswith(_BROKEN):
        return "the database's disk is full or broken"
    return None


def cause_of(error: Exception) -> str:
    """What the driver said, in one line: without the statement, its values and links."""
    return _first_line(error) if isinstance(error, DBAPIError) else str(error)[:300]


def _state(error: OperationalError) -> str:
    state: str | None = getattr(error.orig, "sqlstate", None)
    return state or ""


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0][:300]
