"""Limits in a window of time that all processes share: requests of a principal, points of a team.

The windows are fixed: a minute and an hour of UTC. Unused requests of one window are lost.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from service.db import usage
from service.db.engine import Connection
from service.db.usage import Window
from service.errors import FieldFault, InvalidError, OverLimitError
from service.jobs.actors import Actor
from service.jobs.reason_sentences import say
from service.settings import Limits

REQUESTS: Final = "requests"
POINTS: Final = "points"
REQUESTS_WINDOW_S: Final = 60
POINTS_WINDOW_S: Final = 3_600
# A process takes so many parts of the limit at once, to write once for many requests.
SLICES: Final = 20
KEEP_WINDOWS: Final = timedelta(hours=2)


def window_start(now: datetime, length_s: int) -> datetime:
    """The beginning of the window that holds the moment."""
    return datetime.fromtimestamp(now.timestamp() // length_s * length_s, UTC)


def seconds_left(now: datetime, length_s: int) -> int:
    """Whole seconds until the next window begins, at least 1."""
    return length_s - int(now.timestamp() % length_s)


def slice_of(limit: int) -> int:
    """How many requests a process takes at once."""
    return max(1, limit // SLICES)


def lease_requests(
    connection: Connection, actor: Actor, limit: int, start: datetime
) -> tuple[int, int]:
    """Take a slice of the principal's requests of this minute: how many, and how many are left.

    Near the end of the limit the slice is what is left; none are left for good once it is 0,
    whoever took them.
    """
    window = _window(actor.principal, REQUESTS, actor, start)
    slice_ = slice_of(limit)
    while True:
        used = usage.add_within(connection, window, amount=slice_, limit=limit)
        if used is not None:
            _forget_old(connection, window, is_begun=used == slice_)
            return slice_, limit - used
        # Others may take of it between the two statements, but then less is left: this ends.
        slice_ = min(slice_, limit - usage.used_in(connection, window))
        if slice_ <= 0:
            return 0, 0


def charge_points(connection: Connection, actor: Actor, num_points: int, limits: Limits) -> None:
    """Count points towards the team's quota of this hour, within the transaction that needs them.

    Raises `InvalidError` for more than a whole hour's quota, which no waiting helps against, and
    `OverLimitError` for more than is left of it.
    """
    quota = limits.points_per_hour
    if not quota or actor.is_local:
        return
    refuse_over_quota(actor, num_points, limits)
    now = datetime.now(UTC)
    window = _window("", POINTS, actor, window_start(now, POINTS_WINDOW_S))
    used = usage.add_within(connection, window, amount=num_points, limit=quota)
    if used is None:
        left = quota - usage.used_in(connection, window)
        retry_after_s = seconds_left(now, POINTS_WINDOW_S)
        raise OverLimitError(
            say("quota_used", points=num_points, left=left, limit=quota, seconds=retry_after_s),
            retry_after_s=retry_after_s,
            problem="quota-exceeded",
        )
    _forget_old(connection, window, is_begun=used == num_points)


def refuse_over_quota(actor: Actor, num_points: int, limits: Limits) -> None:
    """Raise `InvalidError` for more points than the team may ever compute in an hour."""
    quota = limits.points_per_hour
    if quota and num_points > quota and not actor.is_local:
        detail = f"{num_points} points, but the team may compute {quota} points in an hour"
        fault = FieldFault(pointer="", code="over_quota", detail=detail)
        raise InvalidError(detail, errors=[fault])


def points_left(connection: Connection, actor: Actor, limits: Limits) -> int | None:
    """Points that the team may still submit in this hour; None: as many as it likes."""
    quota = limits.points_per_hour
    if not quota or actor.is_local:
        return None
    start = window_start(datetime.now(UTC), POINTS_WINDOW_S)
    return max(0, quota - usage.used_in(connection, _window("", POINTS, actor, start)))


def _window(principal: str, policy: str, actor: Actor, start: datetime) -> Window:
    return Window(team_id=actor.team_id, principal=principal, policy=policy, start=start)


def _forget_old(connection: Connection, window: Window, *, is_begun: bool) -> None:
    """Whoever begins a window deletes those long past, so that no duty needs to."""
    if is_begun:
        usage.forget_before(connection, window.start - KEEP_WINDOWS)
