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
from datetime import UTC, date, datetime, time, timedelta, timezone
from itertools import islice, takewhile
from typing import Literal
from zoneinfo import ZoneInfo

from msgspec import Struct

from service.errors import FieldFault
from service.jobs.cron_fields import HORIZON_DAYS, LAST_DAY, CronError, CronFields, read_cron
from service.jobs.zone_data import UnknownZoneError, zone

# No clock was ever moved by more than a day (Samoa's): what was repeated or left out before then
# has been passed when the first slot that is wanted comes.
LOOK_BACK = timedelta(days=3)
PROBE = timedelta(hours=12)
SECOND = timedelta(seconds=1)
ONE_DAY = timedelta(days=1)
# A piece of time in which the clock is not changed is cut off here, and goes on as another: short,
# so that of a schedule that comes once a year few days are searched for changes of the clock.
MAX_PIECE = timedelta(days=8)
# Twice what is looked back: from where nothing comes for longer one goes on where something does.
LONG_PAUSE = 2 * LOOK_BACK
# Outside of these no zone's wall time is sure to be a date.
FIRST_MOMENT = datetime(1900, 1, 1, tzinfo=UTC)
LAST_MOMENT = datetime.combine(LAST_DAY - timedelta(days=120), time(), UTC)


class Slot(Struct, frozen=True, kw_only=True):
    """A moment at which a schedule comes.

    - `local`: the same moment with the offset that the zone of the schedule has then;
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
    after = max(after.astimezone(UTC), FIRST_MOMENT)
    if after >= LAST_MOMENT:
        return iter(())
    return _after(_walk(fields, tz, after - LOOK_BACK), after)


def slots_ahead(cron: str, zone_name: str, after: datetime, *, count: int) -> list[Slot]:
    """So many slots after a moment, of the 50 years in which each expression comes."""
    near = takewhile(
        lambda slot: slot.at - max(after, FIRST_MOMENT) <= timedelta(days=HORIZON_DAYS),
        slots_after(cron, zone_name, after),
    )
    return list(islice(near, count))


def slots_between(cron: str, zone_name: str, first_on: date, last_on: date) -> list[Slot]:
    """The slots on the days of the zone from `first_on` to `last_on`, both included."""
    start = datetime.combine(first_on, time(), UTC) - LOOK_BACK
    # Where clocks go back over midnight, a slot of the day before comes after one of the next.
    near = takewhile(
        lambda slot: slot.local.date() <= last_on + timedelta(days=1),
        slots_after(cron, zone_name, start),
    )
    return [slot for slot in near if first_on <= slot.local.date() <= last_on]


def _after(slots: Iterator[Slot], after: datetime) -> Iterator[Slot]:
    for slot in slots:
        # What comes at the end of a gap may be asked for at that wall time too.
        if slot.at > after:
            after = slot.at
            yield slot


def _walk(fields: CronFields, tz: ZoneInfo, begin: datetime) -> Iterator[Slot]:
    """Piece by piece of the time between two changes of the clock.

    Only from UTC to wall time is `zoneinfo` asked: the other way it is wrong by an hour where a
    change left the offset as it was (Nuuk on 2023-10-28 at 23:30).
    """
    reached = _wall(tz, begin)
    while begin < LAST_MOMENT:
        # 29 February comes in years: what is between is not searched for changes of the clock.
        coming = next(fields.days(begin.date() - ONE_DAY), LAST_DAY)
        if coming - begin.date() > LONG_PAUSE:
            begin = datetime.combine(coming, time(), UTC) - LOOK_BACK
            reached = _wall(tz, begin)
            continue
        end = _end_of_piece(tz, begin)
        first, next_first = _wall(tz, begin), _wall(tz, end)
        offset = first - begin.replace(tzinfo=None)
        last = end.replace(tzinfo=None) + offset
        if not fields.is_continuous and any(_between(fields, reached, first)):
            yield _slot(begin, offset, "gap")
        start = first if fields.is_continuous else max(first, reached)
        for wall in _between(fields, start, last):
            is_twice = wall >= next_first or wall < reached
            at = (wall - offset).replace(tzinfo=UTC)
            yield _slot(at, offset, "overlap" if is_twice else None)
        begin, reached = end, max(reached, last)


def _between(fields: CronFields, first: datetime, last: datetime) -> Iterator[datetime]:
    """Matching wall times from the first on, before the last."""
    if first < last:
        for wall in fields.wall_times(first.date(), last.date()):
            if first <= wall < last:
                yield wall


def _slot(at: datetime, offset: timedelta, dst: Literal["gap", "overlap"] | None) -> Slot:
    return Slot(at=at, local=at.astimezone(timezone(offset)), dst=dst)


def _wall(tz: ZoneInfo, moment: datetime) -> datetime:
    """The wall time, without a zone."""
    return moment.astimezone(tz).replace(tzinfo=None, fold=0)


def _offset(tz: ZoneInfo, moment: datetime) -> timedelta:
    return _wall(tz, moment) - moment.replace(tzinfo=None)


def _end_of_piece(tz: ZoneInfo, begin: datetime) -> datetime:
    """The first moment after `begin` with another offset, or one before which there is none."""
    offset = _offset(tz, begin)
    probe = begin
    while probe < begin + MAX_PIECE:
        earlier, probe = probe, probe + PROBE
        if _offset(tz, probe) != offset:
            return _change_between(tz, earlier.replace(microsecond=0), probe)
    return probe


def _change_between(tz: ZoneInfo, earlier: datetime, later: datetime) -> datetime:
    """The moment at which the offset of `earlier` ends, not after `later`; to the second."""
    offset = _offset(tz, earlier)
    while later - earlier > SECOND:
        middle = (earlier + (later - earlier) / 2).replace(microsecond=0)
        if _offset(tz, middle) == offset:
            earlier = middle
        else:
            later = middle
    return later
