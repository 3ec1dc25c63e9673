"""The scheduler: what every process does once a second for all schedules.

Nothing of them is remembered here. A slot has come because its schedule's `next_at` says so, a run
begins because its row is due, and is reported on because its batch has ended, whoever was killed
between.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from service.db.engine import Database
from service.jobs.duties import Duty
from service.jobs.moved_slots import follow_zones
from service.jobs.run_handover import hand_over
from service.jobs.run_starts import start_due
from service.jobs.slot_ledger import tick
from service.settings import Limits

EVERY_S: Final = 1.0


class Scheduler:
    """Looks after slots and runs; `on_work` is called when batches or reports were stored."""

    def __init__(self, database: Database, limits: Limits, on_work: Callable[[], None]) -> None:
        self._database = database
        self._limits = limits
        self._on_work = on_work
        self._follows_zones = False

    def duty(self) -> Duty:
        """The thread that does it."""
        return Duty("scheduler", self._act, every_s=EVERY_S)

    def _act(self, duty: Duty) -> bool:
        if not self._follows_zones:
            # The program may have come with other data of the zones than the one before it.
            follow_zones(self._database, is_stopping=lambda: duty.is_stopping)
            self._follows_zones = True
        return self.step(datetime.now(UTC), is_stopping=lambda: duty.is_stopping)

    def step(self, now: datetime, *, is_stopping: Callable[[], bool] = lambda: False) -> bool:
        """Write slots, begin runs and hand over what has ended; whether anything was done."""
        written = tick(self._database, now, is_stopping=is_stopping)
        changed = start_due(self._database, self._limits, now, is_stopping=is_stopping)
        changed += hand_over(self._database, now, is_stopping=is_stopping)
        if changed:
            self._on_work()
        return written + changed > 0
