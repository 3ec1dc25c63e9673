"""A thread that does one thing again and again, whatever happens: a duty of every process."""

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from service.db.engine import OperationalError
from service.db.failures import cause_of

WARN_EVERY_S: Final = 60.0

log = structlog.get_logger()


class Duty:
    """Calls `act` every `every_s` seconds, or when woken; a fault is logged and it goes on.

    `act` says whether there is more to do at once. It must end soon after `is_stopping`.
    """

    def __init__(self, name: str, act: Callable[["Duty"], bool], *, every_s: float) -> None:
        self.name = name
        self._act = act
        self._every_s = every_s
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._warned_at = float("-inf")

    @property
    def is_stopping(self) -> bool:
        """Whether the process is about to end."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._loop, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after what is in hand."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """Something was committed: look now. Returns at once."""
        self._wake.set()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            if not self._has_more():
                self._wake.wait(self._every_s)

    def _has_more(self) -> bool:
        try:
            return self._act(self)
        except OperationalError as error:
            now = time.monotonic()
            if now - self._warned_at >= WARN_EVERY_S:
                log.warning("duty_waits", duty=self.name, reason=cause_of(error))
                self._warned_at = now
        except Exception:
            # One fault must not end the only thread that does this.
            log.exception("duty_failed", duty=self.name)
        return False
