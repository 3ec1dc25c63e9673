"""The moment by which a batch must have ended."""

from datetime import UTC, datetime

from service.errors import FieldFault


def deadline_faults(deadline_at: datetime | None, now: datetime) -> list[FieldFault]:
    """What is wrong with a deadline: it is past, or its zone pushes it over the calendar's end."""
    if deadline_at is None:
        return []
    try:
        deadline = deadline_at.astimezone(UTC)
    except OverflowError:
        detail = f"{deadline_at.isoformat()} is beyond the calendar"
        return [FieldFault(pointer="/deadline_at", code="beyond_calendar", detail=detail)]
    if deadline > now:
        return []
    detail = f"{deadline_at.isoformat()} is past: it is {now.isoformat(timespec='seconds')}"
    return [FieldFault(pointer="/deadline_at", code="deadline_passed", detail=detail)]
