"""Occurrences over all time zones, against brute force over every minute of two years."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.jobs import occurrences
from service.jobs.cron_fields import CronError
from service.jobs.occurrences import Slot, check, slots_after, slots_ahead, slots_between
from service.jobs.zone_data import ZONES, UnknownZoneError, zone

BEGIN = datetime(2027, 1, 1, tzinfo=UTC)
NUM_MINUTES = 2 * 365 * 24 * 60 + 24 * 60
# Wall times may lie a day before and after.
MARGIN = 2 * 24 * 60
LOOK_EVERY = 6 * 60
# Of zones that have given up their changes since
PAST = datetime(2023, 1, 1, tzinfo=UTC)
Minutes = NDArray[np.int64]
Mask = NDArray[np.bool_]


# --- brute force: no cronsim, nothing of ours but the data of the zones ---


@cache
def offsets_of(name: str, start: datetime = BEGIN) -> tuple[tuple[int, int], ...]:
    """(minute from the start, minutes east of UTC from then on), looked for every six hours."""
    tz = zone(name)

    def offset(minute: int) -> int:
        moment = start + timedelta(minutes=minute)
        # Not by its utcoffset(): that goes back from wall time, which is wrong at times.
        wall = moment.astimezone(tz).replace(tzinfo=UTC)
        return (wall - moment) // timedelta(minutes=1)

    found = [(0, offset(0))]
    for later in range(LOOK_EVERY, NUM_MINUTES + 1, LOOK_EVERY):
        if offset(later) != found[-1][1]:
            between = range(later - LOOK_EVERY + 1, later + 1)
            first = next(minute for minute in between if offset(minute) != found[-1][1])
            found.append((first, offset(first)))
    return tuple(found)


def groups() -> list[str]:
    """One zone of all that have equal changes."""
    of_change: dict[tuple[tuple[int, int], ...], str] = {}
    for name in sorted(ZONES):
        of_change.setdefault(offsets_of(name), name)
    return sorted(of_change.values())


def walls(name: str, start: datetime = BEGIN) -> Minutes:
    """The wall time of every minute, in minutes from the start."""
    wall = np.arange(NUM_MINUTES, dtype=np.int64)
    changes = [*offsets_of(name, start), (NUM_MINUTES, 0)]
    for (first, offset), (last, _) in pairwise(changes):
        wall[first:last] += offset
    return wall


def mask_of(
    minutes: set[int],
    hours: set[int],
    is_day: Callable[[date], bool],
    start: datetime = BEGIN,
) -> Mask:
    """Which wall times match, from MARGIN before the start on."""
    first_day = (start - timedelta(minutes=MARGIN)).date()
    days = [first_day + timedelta(days=number) for number in range(NUM_MINUTES // 1440 + 4)]
    of_day = np.zeros(1440, dtype=bool)
    for hour in hours:
        for minute in minutes:
            of_day[hour * 60 + minute] = True
    return (np.array([is_day(day) for day in days])[:, None] & of_day).reshape(-1)


def expected(wall: Minutes, mask: Mask, *, is_continuous: bool) -> Minutes:
    """Minutes at which it comes: when a clock that never goes back reaches a wall time first."""
    if is_continuous:
        return np.flatnonzero(mask[wall + MARGIN])
    wanted = np.flatnonzero(mask) - MARGIN
    reached = np.maximum.accumulate(wall)
    # What was reached before the first minute, or is after the last, is unknown here.
    wanted = wanted[(wanted >= wall[0]) & (wanted <= reached[-1])]
    return np.unique(np.searchsorted(reached, wanted, side="left"))


def every_day(_day: date) -> bool:
    return True


def is_last_of_month(day: date) -> bool:
    return (day + timedelta(days=1)).month != day.month


def is_weekday(day: date) -> bool:
    return day.isoweekday() <= 5


def is_second_sunday(day: date) -> bool:
    return day.isoweekday() == 7 and 8 <= day.day <= 14


def is_last_sunday(day: date) -> bool:
    return day.isoweekday() == 7 and (day + timedelta(days=7)).month != day.month


HOURS = set(range(24))
EXPRESSIONS: dict[str, tuple[set[int], set[int], Callable[[date], bool]]] = {
    "30 2 * * *": ({30}, {2}, every_day),
    "0 0 * * *": ({0}, {0}, every_day),
    "59 23 * * *": ({59}, {23}, every_day),
    "0,30 2,3 * * *": ({0, 30}, {2, 3}, every_day),
    "10 1,2 * * *": ({10}, {1, 2}, every_day),
    "*/15 2 * * *": ({0, 15, 30, 45}, {2}, every_day),
    "5 */6 * * *": ({5}, {0, 6, 12, 18}, every_day),
    "30 2 * * 1-5": ({30}, {2}, is_weekday),
    "0 0 L * *": ({0}, {0}, is_last_of_month),
    "15 0,1 * * SUN#2": ({15}, {0, 1}, is_second_sunday),
    "45 1 * * 0L": ({45}, {1}, is_last_sunday),
    "30 * * * *": ({30}, HOURS, every_day),
    "0 * * * *": ({0}, HOURS, every_day),
}


# What comes often is looked at around the changes; hypothesis walks through the days between.
AROUND = 3 * 24 * 60


def minute_of(slot: Slot, start: datetime = BEGIN) -> int:
    minute, rest = divmod(slot.at - start, timedelta(minutes=1))
    assert not rest
    assert slot.local == slot.at
    return minute


def assert_agrees(cron: str, name: str, minutes: Minutes, first: int, last: int) -> None:
    """From the first minute to the last, which is left out."""
    assert_agrees_from(BEGIN, cron, name, minutes, (first, last))


def assert_agrees_from(
    start: datetime, cron: str, name: str, minutes: Minutes, span: tuple[int, int]
) -> None:
    first, last = span
    found = []
    just_before = start + timedelta(minutes=first) - timedelta(microseconds=1)
    for slot in slots_after(cron, name, just_before):
        minute = minute_of(slot, start)
        if minute >= last:
            break
        found.append(minute)
    assert all(earlier < later for earlier, later in pairwise(found)), (cron, name)
    low, high = np.searchsorted(minutes, span)
    assert found == minutes[low:high].tolist(), (cron, name)


@pytest.mark.parametrize("part", [0, 1], ids=["every second", "the others"])
def test_every_zone_over_two_years_agrees_with_every_minute_looked_at(part: int) -> None:
    names = groups()
    assert len(names) > 50
    masks = {cron: mask_of(*parts) for cron, parts in EXPRESSIONS.items()}
    for name in names[part::2]:
        wall = walls(name)
        for cron, mask in masks.items():
            of_hour, of_day, _ = EXPRESSIONS[cron]
            minutes = expected(wall, mask, is_continuous=of_day == HOURS)
            if len(of_hour) * len(of_day) == 1:
                assert_agrees(cron, name, minutes, 0, NUM_MINUTES)
                continue
            for change, _ in offsets_of(name)[1:]:
                first, last = max(0, change - AROUND), min(NUM_MINUTES, change + AROUND)
                assert_agrees(cron, name, minutes, first, last)


@pytest.mark.parametrize(
    "name",
    [
        # Two weeks of Ramadan in winter time; change at midnight; two weeks late by decree
        *("Africa/Casablanca", "America/Asuncion", "Asia/Beirut", "Africa/Cairo"),
        # At midnight to 23:00; at midnight to 1:00
        *("America/Nuuk", "America/Havana", "Atlantic/Azores", "Asia/Gaza"),
    ],
)
def test_unusual_changes_of_the_past(name: str) -> None:
    assert len(offsets_of(name, PAST)) > 3
    wall = walls(name, PAST)
    for cron, (minutes, hours, is_day) in EXPRESSIONS.items():
        mask = mask_of(minutes, hours, is_day, PAST)
        wanted = expected(wall, mask, is_continuous=hours == HOURS)
        assert_agrees_from(PAST, cron, name, wanted, (0, NUM_MINUTES))


def test_shifts_of_all_sizes_are_among_those_looked_at() -> None:
    shifts = {
        name: {later - earlier for (_, earlier), (_, later) in pairwise(offsets_of(name))}
        for name in ("Europe/Paris", "Australia/Lord_Howe", "Antarctica/Troll", "UTC", "EST5EDT")
    }
    assert shifts == {
        "Europe/Paris": {60, -60},
        "Australia/Lord_Howe": {30, -30},
        "Antarctica/Troll": {120, -120},
        "UTC": set(),
        "EST5EDT": {60, -60},
    }


@pytest.mark.parametrize("cron", ["30 * * * *", "*/15 * * * *"])
def test_every_hour_of_two_years_in_zones_of_unusual_changes(cron: str) -> None:
    minutes = {30} if cron.startswith("30") else {0, 15, 30, 45}
    mask = mask_of(minutes, HOURS, every_day)
    for name in ("Australia/Lord_Howe", "Pacific/Chatham"):
        assert_agrees(cron, name, expected(walls(name), mask, is_continuous=True), 0, NUM_MINUTES)


@given(
    name=st.sampled_from(sorted(ZONES)),
    minutes=st.sets(st.integers(0, 59), min_size=1, max_size=4),
    hours=st.sets(st.integers(0, 4) | st.integers(0, 23), min_size=1, max_size=4),
    weekdays=st.none() | st.sets(st.integers(0, 6), min_size=1),
    days=st.none() | st.sets(st.integers(1, 31), min_size=1),
)
@settings(max_examples=150, deadline=None)
def test_any_expression_in_any_zone(
    name: str,
    minutes: set[int],
    hours: set[int],
    weekdays: set[int] | None,
    days: set[int] | None,
) -> None:
    def is_day(day: date) -> bool:
        of_week = weekdays is None or day.isoweekday() % 7 in weekdays
        of_month = days is None or day.day in days
        if weekdays is None or days is None:
            return of_week and of_month
        return of_week or of_month

    cron = " ".join(
        "*" if part is None else ",".join(map(str, sorted(part)))
        for part in (minutes, hours, days, None, weekdays)
    )
    wanted = expected(walls(name), mask_of(minutes, hours, is_day), is_continuous=False)
    assert_agrees(cron, name, wanted, 0, NUM_MINUTES)


@given(
    name=st.sampled_from(["Europe/Paris", "America/Havana", "America/Nuuk", "UTC"]),
    cron=st.sampled_from([*EXPRESSIONS, "*/15 * * * *"]),
    minute=st.integers(0, NUM_MINUTES - 1),
)
@settings(max_examples=100, deadline=None)
def test_where_one_begins_to_look_makes_no_difference(name: str, cron: str, minute: int) -> None:
    begin = BEGIN + timedelta(minutes=minute)
    early = slots_after(cron, name, begin - timedelta(days=40))
    after = list(islice((slot for slot in early if slot.at > begin), 5))
    assert after == list(islice(slots_after(cron, name, begin), 5))


def local_times(cron: str, name: str, after: str, count: int = 3) -> list[str]:
    slots = islice(slots_after(cron, name, datetime.fromisoformat(after)), count)
    return [f"{slot.local.isoformat()} {slot.dst or ''}".strip() for slot in slots]


@pytest.mark.parametrize(
    ("cron", "name", "after", "wanted"),
    [
        (
            "30 2 * * *",
            "Europe/Paris",
            "2027-10-30T12:00Z",
            ["2027-10-31T02:30:00+02:00 overlap", "2027-11-01T02:30:00+01:00"],
        ),
        (
            "30 2 * * *",
            "Europe/Paris",
            "2027-03-27T12:00Z",
            ["2027-03-28T03:00:00+02:00 gap", "2027-03-29T02:30:00+02:00"],
        ),
        (
            "0,30 2,3 * * *",
            "Europe/Paris",
            "2027-03-27T12:00Z",
            ["2027-03-28T03:00:00+02:00 gap", "2027-03-28T03:30:00+02:00"],
        ),
        (
            "30 * * * *",
            "Europe/Paris",
            "2027-10-31T00:00Z",
            ["2027-10-31T02:30:00+02:00 overlap", "2027-10-31T02:30:00+01:00 overlap"],
        ),
        (
            "30 * * * *",
            "Europe/Paris",
            "2027-03-28T00:00Z",
            ["2027-03-28T01:30:00+01:00", "2027-03-28T03:30:00+02:00"],
        ),
        # A quarter of the hour that is left out, and an hour every two: not lost
        (
            "*/15 2 * * *",
            "Europe/Paris",
            "2027-03-27T12:00Z",
            ["2027-03-28T03:00:00+02:00 gap", "2027-03-29T02:00:00+02:00"],
        ),
        (
            "0 */2 * * *",
            "Europe/Paris",
            "2027-10-30T23:00Z",
            ["2027-10-31T02:00:00+02:00 overlap", "2027-10-31T04:00:00+01:00"],
        ),
        # Half an hour only
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2027-10-02T12:00Z",
            ["2027-10-03T02:30:00+11:00 gap", "2027-10-04T02:15:00+11:00"],
        ),
        # Two hours
        (
            "30 1 * * *",
            "Antarctica/Troll",
            "2027-03-27T12:00Z",
            ["2027-03-28T03:00:00+02:00 gap", "2027-03-29T01:30:00+02:00"],
        ),
        # No midnight
        (
            "0 0 * * *",
            "Asia/Beirut",
            "2027-03-27T12:00Z",
            ["2027-03-28T01:00:00+03:00 gap", "2027-03-29T00:00:00+03:00"],
        ),
        # Two midnights, the second an hour after the first
        (
            "0 0 * * *",
            "America/Havana",
            "2027-11-06T12:00Z",
            ["2027-11-07T00:00:00-04:00 overlap", "2027-11-08T00:00:00-05:00"],
        ),
        # A whole day that was left out, when Samoa changed the side of the date line
        (
            "30 2 * * *",
            "Pacific/Apia",
            "2011-12-29T20:00Z",
            ["2011-12-31T00:00:00+14:00 gap", "2011-12-31T02:30:00+14:00"],
        ),
        (
            "0 12 29 2 *",
            "UTC",
            "2027-01-01T00:00Z",
            ["2028-02-29T12:00:00+00:00", "2032-02-29T12:00:00+00:00"],
        ),
        (
            "0 18 LW * *",
            "America/New_York",
            "2027-01-01T00:00Z",
            ["2027-01-29T18:00:00-05:00", "2027-02-26T18:00:00-05:00"],
        ),
        # Once in 28 years, and in none of 2100
        (
            "0 0 * 2 MON#5",
            "UTC",
            "2045-01-01T00:00Z",
            ["2072-02-29T00:00:00+00:00", "2112-02-29T00:00:00+00:00"],
        ),
        # At the exact moment: strictly after
        ("0 0 * * *", "UTC", "2027-01-01T00:00Z", ["2027-01-02T00:00:00+00:00"]),
    ],
)
def test_known_nights(cron: str, name: str, after: str, wanted: list[str]) -> None:
    assert local_times(cron, name, after, len(wanted)) == wanted


def test_the_days_of_the_zone_are_taken_whole() -> None:
    found = slots_between("0 */6 * * *", "Pacific/Kiritimati", date(2027, 3, 1), date(2027, 3, 2))
    assert [slot.local.isoformat() for slot in found] == [
        f"2027-03-0{day}T{hour:02}:00:00+14:00" for day in (1, 2) for hour in (0, 6, 12, 18)
    ]
    assert slots_between("0 0 * * *", "UTC", date(2027, 3, 2), date(2027, 3, 1)) == []


def test_a_day_that_begins_twice_keeps_its_slots() -> None:
    # In Nuuk clocks go back from midnight to 23:00 of the day before.
    days = [date(2027, 10, 30), date(2027, 10, 31)]
    of_days = [slots_between("30 * * * *", "America/Nuuk", day, day) for day in days]
    assert [len(slots) for slots in of_days] == [25, 24]
    assert len(slots_between("30 * * * *", "America/Nuuk", *days)) == 49


@pytest.mark.parametrize(
    ("cron", "code"),
    [
        ("* * * * * *", "wrong_number_of_fields"),
        ("0 0 * * * 2027", "wrong_number_of_fields"),
        ("@daily", "wrong_number_of_fields"),
        ("@reboot", "wrong_number_of_fields"),
        ("", "wrong_number_of_fields"),
        ("a b c d e", "malformed_cron"),
        ("60 0 * * *", "malformed_cron"),
        ("0 24 * * *", "malformed_cron"),
        ("0 0 0 * *", "malformed_cron"),
        ("0 0 * 13 *", "malformed_cron"),
        ("0 0 * * 8", "malformed_cron"),
        ("*/0 * * * *", "malformed_cron"),
        ("5-1 * * * *", "malformed_cron"),
        ("0 0 * * MON#6", "malformed_cron"),
        ("0 0 * * 1#1/2", "malformed_cron"),
        ("0 0 W * *", "malformed_cron"),
        ("0 0 ² * *", "malformed_cron"),
        ("-1 0 * * *", "malformed_cron"),
        ("0 0 30 2 *", "never_comes"),
        ("0 0 31 4,6,9,11 *", "never_comes"),
        ("0 0 */31 2 */2", None),
        ("* * * * *", "too_frequent"),
        ("*/10 * * * *", "too_frequent"),
        ("0,5 0 1 1 *", "too_frequent"),
        ("59 23,0 * * *", None),
        ("0,50 0,23 * * *", "too_frequent"),
        # Only where two days follow each other do they come close.
        ("0,50 0,23 * * 1", None),
        ("0 0 * * *", None),
        ("*/15 * * * *", None),
        ("30 2 1,15 * MON-FRI", None),
        ("30 2 L * *", None),
        ("30 2 * * 5#2", None),
        ("30 2 * JAN,JUL fri", None),
        ("0 0 * 2 MON#5", None),
    ],
)
def test_expressions_that_are_taken_and_refused(cron: str, code: str | None) -> None:
    faults = check(cron, "Europe/Paris", shortest_minutes=15)
    assert [(fault.pointer, fault.code) for fault in faults] == (
        [] if code is None else [("/cron", code)]
    )
    if code not in {None, "too_frequent"}:
        with pytest.raises(CronError):
            next(slots_after(cron, "UTC", BEGIN))


@pytest.mark.parametrize(
    ("cron", "shortest"),
    [
        ("0 0 * * *", 1440),
        ("30 2 * * *", 1440),
        ("0 0 * * 1", 7 * 1440),
        ("0 0 1 * *", 28 * 1440),
        ("0 0 1,31 * *", 1440),
        ("0 */6 * * *", 360),
        ("0 0,22 * * *", 120),
        ("0 0,22 * * 1", 22 * 60),
        ("0 0,23 * * 1-2", 60),
    ],
)
def test_how_often_is_told_by_the_wall_times(cron: str, shortest: int) -> None:
    """A night of change shortens a day by an hour, and is no reason to refuse what is daily."""
    assert check(cron, "Europe/Paris", shortest_minutes=shortest) == []
    (fault,) = check(cron, "Europe/Paris", shortest_minutes=shortest + 1)
    assert fault.code == "too_frequent"
    assert f"after {shortest} minutes" in fault.detail


@pytest.mark.parametrize(
    "name",
    [
        *("", "Europe", "Europe/Atlantis", "europe/paris", "CET-1CEST", "UTC+2", "+02:00"),
        *("Factory", "../../etc/passwd", "/etc/localtime", "Europe/../UTC", "tzdata.zi"),
    ],
)
def test_zones_that_are_none(name: str) -> None:
    (fault,) = check("0 0 * * *", name, shortest_minutes=1)
    assert (fault.pointer, fault.code) == ("/zone", "unknown_zone")
    with pytest.raises(UnknownZoneError):
        zone(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("europe/paris", "Europe/Paris"),
        ("paris", "Europe/Paris"),
        ("New York", "America/New_York"),
        ("Mars", None),
        ("", None),
    ],
)
def test_the_zone_that_is_meant_is_named(name: str, meant: str | None) -> None:
    (fault,) = check("0 0 * * *", name, shortest_minutes=1)
    assert fault.detail.partition("; is ")[2] == (f"{meant!r} meant?" if meant else "")


def test_both_faults_are_told() -> None:
    faults = check("61 0 * * *", "Mars/Olympus", shortest_minutes=1)
    assert [fault.pointer for fault in faults] == ["/cron", "/zone"]
    assert faults[0].detail == "'61' cannot be read as the minute of '61 0 * * *'"


def test_what_comes_once_in_years_is_shown_for_fifty_years() -> None:
    """A preview of 200 leap days would walk through 800 years: a small request that takes long."""
    after = datetime(2026, 11, 30, tzinfo=UTC)
    leap_days = slots_ahead("0 0 29 2 *", "Europe/Paris", after, count=200)
    assert [slot.local.year for slot in leap_days] == list(range(2028, 2077, 4))
    assert len(slots_ahead("30 2 * * *", "UTC", after, count=200)) == 200
    assert slots_ahead("30 2 * * *", "UTC", datetime.max.replace(tzinfo=UTC), count=2) == []
    assert len(slots_ahead("30 2 * * *", "UTC", datetime.min.replace(tzinfo=UTC), count=2)) == 2


def test_the_ends_of_the_calendar() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    for cron in ("0 0 * * *", "0 * * * *"):
        assert next(slots_after(cron, "Pacific/Kiritimati", last), None) is None
        almost = occurrences.LAST_MOMENT - timedelta(days=1)
        late = list(slots_after(cron, "Pacific/Kiritimati", almost))
        assert 1 <= len(late) <= 60 * 24
        assert all(slot.at > almost for slot in late)
        first = datetime.min.replace(tzinfo=UTC)
        slot = next(slots_after(cron, "America/New_York", first))
        assert slot.at.year == 1900
    assert occurrences.LAST_MOMENT.year == 9998
