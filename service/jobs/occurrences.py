"""When a schedule comes: slots of a cron expression in the wall time of an IANA zone.

- A wall time that does not exist, because clocks went forward over it, comes at the first moment
  after the gap; several of them, and one that would come then anyway, come once.
- A wall time that exists twice, because clocks went back, comes once, the first time.
- An expression that comes in every hour of the day (`30 * * * *`, `*/15 * * * *`) goes on by
  elapsed time instead: nothing is made up for an hour that is left out, and in an hour that is
  repeated it comes again.

Slots are strictly increasing, and do not depend on where one begins to look.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import takewhile
from typing import Literal
from zoneinfo import ZoneInfo

from msgspec import Struct

from service.errors import FieldFault
from service.jobs.cron_fields import LAST_DAY, CronError, CronFields, read_cron
from service.jobs.zone_data import UnknownZoneError, zone

# No zone's clock was ever moved by more: Samoa went over a whole day.
LONGEST_SHIFT = timedelta(hours=25)
PROBE = timedelta(hours=12)
SECOND = timedelta(seconds=1)
# A piece of time in which the clock is not changed is cut off here, and goes on as another.
MAX_PIECE = timedelta(days=60)
# Outside of these no zone's wall time is sure to be a date.
FIRST_MOMENT = datetime(1900, 1, 1, tzinfo=UTC)
LAST_MOMENT = datetime.combine(LAST_DAY, time(), UTC)


class Slot(Struct, frozen=True, kw_only=True):
    """A moment at which a schedule comes.

    - `local`: the same moment in the zone of the schedule;
    - `dst`: `gap`: its wall time does not exist that day, this is the first moment after;
      `overlap`: its wall time exists twice that day.
    """

    at: datetime
    local: datetime
    dst: Literal["gap", "overlap"] | None = None


def check(cron: str, zone_name: str, *, shortest_minutes: int) -> list[FieldFault]:
    """The faults of expression and zone; nothing when both can be used."""
    faults = []
    try:
        shortest = read_cron(cron).shortest_minutes()
        if shortest < shortest_minutes:
            detail = (
                f"{cron!r} comes again after {shortest} minutes, but a schedule may come every "
                f"{shortest_minutes} minutes at most"
            )
            faults.append(FieldFault(pointer="/cron", code="too_frequent", detail=detail))
    except CronError as error:
        faults.append(FieldFault(pointer="/cron", code=error.code, detail=error.detail))
    try:
        zone(zone_name)
    except UnknownZoneError as error:
        faults.append(FieldFault(pointer="/zone", code="unknown_zone", detail=str(error)))
    return faults


def slots_after(cron: str, zone_name: str, after: datetime) -> Iterator[Slot]:
    """The slots after a moment, strictly increasing; raises `CronError`, `UnknownZoneError`."""
    fields, tz = read_cron(cron), zone(zone_name)
    after = min(max(after.astimezone(UTC), FIRST_MOMENT), LAST_MOMENT)
    walk = _continuous if fields.is_continuous else _by_wall_time
    return walk(fields, tz, after)


def slots_between(cron: str, zone_name: str, first_on: date, last_on: date) -> list[Slot]:
    """The slots on the days of the zone from `first_on` to `last_on`, both included."""
    start = datetime.combine(first_on, time(), UTC) - 2 * LONGEST_SHIFT
    # Where clocks go back over midnight, a slot of the day before comes after one of the next.
    near = takewhile(
        lambda slot: slot.local.date() <= last_on + timedelta(days=1),
        slots_after(cron, zone_name, start),
    )
    return [slot for slot in near if first_on <= slot.local.date() <= last_on]


def _by_wall_time(fields: CronFields, tz: ZoneInfo, after: datetime) -> Iterator[Slot]:
    """Every wall time once."""
    begin = after.astimezone(tz) - LONGEST_SHIFT
    for wall in fields.wall_times(begin.date()):
        slot = _slot_of(wall, tz)
        if slot.at > after:
            after = slot.at
            yield slot


def _slot_of(wall: datetime, tz: ZoneInfo) -> Slot:
    first, second = wall.replace(tzinfo=tz), wall.replace(tzinfo=tz, fold=1)
    before, later = _offset(first), _offset(second)
    at = first.astimezone(UTC)
    if before < later:
        # PEP 495: in a gap the first reading has the offset before it, and lies after it.
        at = _change_between(tz, second.astimezone(UTC), at)
        return Slot(at=at, local=at.astimezone(tz), dst="gap")
    return Slot(at=at, local=at.astimezone(tz), dst="overlap" if before > later else None)


def _continuous(fields: CronFields, tz: ZoneInfo, after: datetime) -> Iterator[Slot]:
    """Every moment whose wall time matches, from one change of the clock to the next."""
    begin = after
    while begin.date() < LAST_DAY - timedelta(days=2):
        end = _end_of_piece(tz, begin)
        offset = _offset(begin.astimezone(tz))
        first_on, last_on = ((moment + offset).date() for moment in (begin, end))
        for wall in fields.wall_times(first_on, last_on):
            at = (wall - offset).replace(tzinfo=UTC)
            if begin <= at < end and at > after:
                yield Slot(at=at, local=at.astimezone(tz), dst=_repeated(at, tz))
        begin = end


def _repeated(at: datetime, tz: ZoneInfo) -> Literal["overlap"] | None:
    local = at.astimezone(tz)
    return "overlap" if _offset(local.replace(fold=0)) > _offset(local.replace(fold=1)) else None


def _offset(local: datetime) -> timedelta:
    offset = local.utcoffset()
    assert offset is not None  # noqa: S101 # every moment here has a zone
    return offset


def _end_of_piece(tz: ZoneInfo, begin: datetime) -> datetime:
    """The first moment after `begin` with another offset, or one before which there is none."""
    offset = _offset(begin.astimezone(tz))
    probe = begin
    while probe < begin + MAX_PIECE:
        earlier, probe = probe, probe + PROBE
        if _offset(probe.astimezone(tz)) != offset:
            return _change_between(tz, earlier, probe)
    return probe


def _change_between(tz: ZoneInfo, earlier: datetime, later: datetime) -> datetime:
    """The moment at which the offset of `earlier` ends, not after `later`; to the second."""
    offset = _offset(earlier.astimezone(tz))
    earlier = earlier.replace(microsecond=0)
    while later - earlier > SECOND:
        middle = (earlier + (later - earlier) / 2).replace(microsecond=0)
        if _offset(middle.astimezone(tz)) == offset:
            earlier = middle
        else:
            later = middle
    return later
