"""Cron expressions: five fields, as cronsim reads them, and what they say about days and minutes.

cronsim is used to read the language only; `occurrences` walks from slot to slot. cronsim's own
walk comes once or twice by whether a field begins with a star: over a night of change it leaves
out `*/15 2 * * *` and comes at both 02:00 of `0 */2 * * *`.
"""

from collections.abc import Iterator
from datetime import MAXYEAR, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise

from cronsim import CronSim, CronSimError
from msgspec import Struct

HOURS_PER_DAY = 24
MINUTES_PER_DAY = HOURS_PER_DAY * 60
NUM_FIELDS = 5
# As far as one looks for the next day: 29 February on a Monday comes every 28 years, or 40.
HORIZON_DAYS = 50 * 366
# Time of day does not depend on the day, so that the days of four years show how close slots are.
SHOWN_DAYS = 4 * 366
LAST_DAY = date(MAXYEAR - 1, 11, 30)
# Nothing depends on it, but one has to start somewhere; 400 years of weekdays repeat.
_SOME_DAY = date(2000, 1, 1)
_START = datetime.combine(_SOME_DAY, time())
FIELD_NAMES = ("minute", "hour", "day of the month", "month", "day of the week")


class CronError(ValueError):
    """The expression cannot be read, or never comes; `code` says which."""

    def __init__(self, detail: str, code: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code


class CronFields(Struct, frozen=True):
    """An expression that can be read.

    - `minutes_of_day`: when it comes on a day that matches, increasing;
    - `is_continuous`: every hour of the day matches, so that it goes on by elapsed time.
    """

    source: CronSim
    minutes_of_day: tuple[int, ...]
    is_continuous: bool

    def days(self, first_on: date, last_on: date = LAST_DAY) -> Iterator[date]:
        """Matching days from the first to the last one."""
        last_on = min(last_on, LAST_DAY)
        day = first_on
        while day <= last_on:
            if day.month not in self.source.months:
                # To the first of the next month
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self.source.match_day(day):
                yield day
            day += timedelta(days=1)

    def wall_times(self, first_on: date, last_on: date = LAST_DAY) -> Iterator[datetime]:
        """Wall times without a zone on the days from the first to the last one, increasing."""
        for day in self.days(first_on, last_on):
            midnight = datetime.combine(day, time())
            for minute in self.minutes_of_day:
                yield midnight + timedelta(minutes=minute)

    def shortest_minutes(self) -> int:
        """The shortest time between two wall times; a change of the clock is not looked at."""
        of_day = self.minutes_of_day
        shortest = min(
            (later - earlier for earlier, later in pairwise(of_day)),
            default=HORIZON_DAYS * MINUTES_PER_DAY,
        )
        over_night = MINUTES_PER_DAY - of_day[-1] + of_day[0]
        before: date | None = None
        for day in self.days(_SOME_DAY, _SOME_DAY + timedelta(days=SHOWN_DAYS)):
            if before is not None:
                pause = over_night + ((day - before).days - 1) * MINUTES_PER_DAY
                shortest = min(shortest, pause)
            if shortest <= over_night:
                break
            before = day
        return shortest


@lru_cache(maxsize=1_024)
def read_cron(cron: str) -> CronFields:
    """The fields of the expression; raises `CronError`."""
    parts = cron.split()
    if len(parts) != NUM_FIELDS:
        raise CronError(
            f"{cron!r} has {len(parts)} field(s), but cron takes five: minute, hour, day of the "
            "month, month, day of the week (no seconds, no @daily)",
            "wrong_number_of_fields",
        )
    for position, part in enumerate(parts):
        alone = ["*"] * NUM_FIELDS
        alone[position] = part
        try:
            CronSim(" ".join(alone), _START)
        except (CronSimError, AssertionError, ValueError) as error:
            detail = f"{part!r} cannot be read as the {FIELD_NAMES[position]}"
            raise CronError(f"{detail} of {cron!r}", "malformed_cron") from error
    never = CronError(f"{cron!r} never comes: no day of 50 years matches", "never_comes")
    try:
        source = CronSim(cron, _START)
    except CronSimError as error:
        # Fields that can be read one by one, but no month has so many days.
        raise never from error
    fields = CronFields(
        source,
        tuple(sorted(hour * 60 + minute for hour in source.hours for minute in source.minutes)),
        len(source.hours) == HOURS_PER_DAY,
    )
    until = _SOME_DAY + timedelta(days=HORIZON_DAYS)
    if next(fields.days(_SOME_DAY, until), None) is None:
        raise never
    return fields
