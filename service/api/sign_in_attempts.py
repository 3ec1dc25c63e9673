"""How many refused sign-ins an address has in a minute: nobody is known there who has a limit."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from service.errors import OverLimitError
from service.jobs.usage import seconds_left, window_start

WINDOW_S: Final = 60
MAX_REFUSED: Final = 30
# Counted each by itself; all further ones together
MAX_ADDRESSES: Final = 10_000
_OTHERS: Final = ""


class SignInAttempts:
    """Counts them in this process; good sign-ins count for their key, like all its requests."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._start = datetime.min.replace(tzinfo=UTC)
        self._refused: dict[str, int] = {}

    def admit(self, address: str) -> None:
        """Raise `OverLimitError` (429) where too many were refused in this minute."""
        now = self._begun()
        if self._refused.get(self._counted(address), 0) >= MAX_REFUSED:
            left_s = seconds_left(now, WINDOW_S)
            raise OverLimitError(
                f"{MAX_REFUSED} sign-ins from this address were refused in this minute; the next "
                f"begins in {left_s} s",
                retry_after_s=left_s,
            )

    def note_refused(self, address: str) -> None:
        """Count one."""
        self._begun()
        counted = self._counted(address)
        self._refused[counted] = self._refused.get(counted, 0) + 1

    def _begun(self) -> datetime:
        now = self._clock()
        start = window_start(now, WINDOW_S)
        if start != self._start:
            self._refused.clear()
            self._start = start
        return now

    def _counted(self, address: str) -> str:
        is_known = address in self._refused or len(self._refused) < MAX_ADDRESSES
        return address if is_known else _OTHERS
