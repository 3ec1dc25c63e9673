"""Days and steps of time of a history."""

from datetime import date, datetime, timedelta
from typing import NamedTuple

from service.errors import MalformedError
from service.jobs.history_documents import HistoryQuery, Step
from service.jobs.zone_data import zone
from service.reports.history import ScheduledRun


class Days(NamedTuple):
    """`[first_on, before_on)`, None is open."""

    first_on: date | None
    before_on: date | None


def days_of(query: HistoryQuery, now: datetime, zone_name: str) -> Days:
    """The days that the query asks for; raises `MalformedError` for such as cannot be."""
    if query.window is None:
        if query.since and query.until and query.since >= query.until:
            raise MalformedError(f"from is {query.since}, which is not before until {query.until}")
        return Days(query.since, query.until)
    if query.since is not None:
        raise MalformedError("give window or from, not both")
    today = (query.as_of or now).astimezone(zone(zone_name)).date()
    before = query.until or today + timedelta(days=1)
    try:
        return Days(before - timedelta(days=int(query.window.removesuffix("d"))), before)
    except OverflowError:
        raise MalformedError(f"{query.window} before {before} is beyond the calendar") from None


def step_start(on: date, step: Step) -> date:
    """The first day of the step of time that the day lies in; of runs each day is its own."""
    if step == "week":
        # The calendar begins on a Monday
        return on - timedelta(days=on.weekday())
    return on.replace(day=1) if step == "month" else on


def local_day(run: ScheduledRun) -> date:
    """The day of the slot where the schedule was at home."""
    return date.fromisoformat(run.local_time[: len("2026-12-01")])
