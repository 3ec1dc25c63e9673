"""Requests of each principal in a minute, and the header fields that say what is left.

The fields are those of draft-ietf-httpapi-ratelimit-headers-11: lists of policies with parameters.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeAlias
from uuid import UUID

import structlog

from service.api.transactions import in_thread
from service.db.engine import Database, OperationalError
from service.db.failures import cause_of, disk_fault
from service.errors import OverLimitError
from service.jobs.actors import Actor
from service.jobs.usage import (
    POINTS,
    POINTS_WINDOW_S,
    REQUESTS,
    REQUESTS_WINDOW_S,
    lease_requests,
    seconds_left,
    slice_of,
    window_start,
)
from service.settings import Limits

log = structlog.get_logger()

Fields: TypeAlias = dict[bytes, bytes]

_KEY: Final = "trainard.rate_limit_fields"


def limit_fields(scope: Any) -> Fields:
    """The header fields that the answer to this request gets; none for those without limits."""
    fields: Fields = scope.get(_KEY, {})
    return fields


class _Share:
    """What this process may still answer to one principal in this minute."""

    def __init__(self, start: datetime) -> None:
        self.start = start
        self.leased = 0
        # Not taken by any process
        self.free: int | None = None
        # Whether this process has answered on its own account
        self.is_uncounted = False
        self.turn = asyncio.Lock()


class RequestRates:
    """Counts the requests of each principal; slices of the limit are taken from the database."""

    def __init__(
        self,
        database: Database,
        limits: Limits,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._limit = limits.requests_per_minute
        self._clock = clock
        self._policy = _policy(limits)
        self._start = datetime.min.replace(tzinfo=UTC)
        self._shares: dict[tuple[UUID, str], _Share] = {}
        self._warned_for: datetime | None = None

    async def admit(self, scope: Any, actor: Actor) -> None:
        """Count the request and keep the fields of its answer; raises `OverLimitError` (429)."""
        if actor.is_local or not self._policy:
            return
        fields: Fields = {b"ratelimit-policy": self._policy}
        scope[_KEY] = fields
        if not self._limit:
            return
        now = self._clock()
        share = self._share(actor, window_start(now, REQUESTS_WINDOW_S))
        if not share.leased and share.free != 0:
            await self._lease(share, actor)
        left_s = seconds_left(now, REQUESTS_WINDOW_S)
        is_over = not share.leased
        if not is_over:
            share.leased -= 1
        left = share.leased + (share.free or 0)
        fields[b"ratelimit"] = f'"{REQUESTS}";r={left};t={left_s}'.encode()
        if is_over:
            limit, reason = self._limit, ""
            if share.is_uncounted:
                limit, reason = slice_of(limit), ", because they cannot be counted now"
            raise OverLimitError(
                f"{limit} requests a minute are answered to {actor.name}{reason}; the next minute "
                f"begins in {left_s} s",
                retry_after_s=left_s,
            )

    def _share(self, actor: Actor, start: datetime) -> _Share:
        if start != self._start:
            self._shares.clear()
            self._start = start
        return self._shares.setdefault((actor.team_id, actor.principal), _Share(start))

    async def _lease(self, share: _Share, actor: Actor) -> None:
        async with share.turn:
            # One of those who waited with this one may have taken enough for all.
            while not share.leased and share.free != 0:
                try:
                    leased, share.free = await in_thread(partial(self._taken, share.start, actor))
                except OperationalError as error:
                    if disk_fault(error) is None:
                        raise
                    self._go_uncounted(share, error)
                else:
                    share.leased += leased

    def _go_uncounted(self, share: _Share, error: OperationalError) -> None:
        """Answer one slice in this minute that no other process knows of.

        A full disk can still be read: it must not take the service away from all readers.
        """
        if share.is_uncounted:
            share.free = 0
            return
        share.is_uncounted = True
        share.leased += slice_of(self._limit)
        if self._warned_for != share.start:
            self._warned_for = share.start
            log.warning("requests_not_counted", reason=cause_of(error))

    def _taken(self, start: datetime, actor: Actor) -> tuple[int, int]:
        with self._database.write() as connection:
            return lease_requests(connection, actor, self._limit, start)


def _policy(limits: Limits) -> bytes:
    policies = []
    if limits.requests_per_minute:
        policies.append(f'"{REQUESTS}";q={limits.requests_per_minute};w={REQUESTS_WINDOW_S}')
    if limits.points_per_hour:
        # The unit is said because it is requests where it is not.
        quota = f'q={limits.points_per_hour};qu="{POINTS}";w={POINTS_WINDOW_S}'
        policies.append(f'"{POINTS}";{quota}')
    return ", ".join(policies).encode()
