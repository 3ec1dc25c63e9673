"""Schedules: which there are, and when they come. `schedule_changes` writes them."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from service.db import schedules as rows
from service.db.engine import Connection, Row
from service.db.schedules import ScheduleFilter
from service.errors import MalformedError, NotFoundError
from service.jobs.actors import Actor
from service.jobs.cron_words import words_of
from service.jobs.labels import is_slug
from service.jobs.occurrences import slots_ahead
from service.jobs.page_tokens import make_token, read_token
from service.jobs.schedule_views import (
    OccurrenceList,
    ScheduleOut,
    SchedulePage,
    definition_of,
    occurrence_of,
    shown_schedules,
)
from service.jobs.zone_data import TZDATA_VERSION

__all__ = [
    "ScheduleOut",
    "definition_of",
    "id_in",
    "list_page",
    "occurrences",
    "read_schedule",
    "require",
]

ID_LENGTH = 36


def id_in(key: str) -> UUID | None:
    """The id that a key is, or None: then it is a slug. No slug can be an id."""
    if len(key) != ID_LENGTH:
        return None
    try:
        return UUID(key)
    except ValueError:
        return None


def require(connection: Connection, actor: Actor, key: str, *, lock: bool = False) -> Row[Any]:
    """The stored schedule of an id or a slug; raises `NotFoundError`."""
    wanted = id_in(key)
    row = None
    if wanted is not None or is_slug(key):
        row = rows.get_schedule(connection, actor.team_id, wanted or key, lock=lock)
    if row is None:
        raise NotFoundError(f"there is no schedule {key!r}")
    return row


def read_schedule(connection: Connection, actor: Actor, key: str) -> ScheduleOut:
    """One schedule; raises `NotFoundError`."""
    return shown_schedules(connection, actor, [require(connection, actor, key)])[0]


def list_page(
    connection: Connection,
    actor: Actor,
    wanted: ScheduleFilter,
    *,
    page_size: int,
    page_token: str | None,
) -> SchedulePage:
    """A page of schedules by slug; raises `MalformedError` for a foreign token."""
    query = ["schedules", msgspec.to_builtins(wanted)]
    after = read_token(page_token, query, str)
    if after is not None and not is_slug(after):
        raise MalformedError("page_token is none of ours")
    found = rows.list_schedules(connection, actor.team_id, wanted, after=after, limit=page_size + 1)
    shown = found[:page_size]
    return SchedulePage(
        items=shown_schedules(connection, actor, shown),
        next_page_token=make_token(query, shown[-1].slug) if len(found) > page_size else None,
    )


def occurrences(
    connection: Connection, actor: Actor, key: str, *, after: datetime, count: int
) -> OccurrenceList:
    """The next slots after a moment, whether it is paused or not; raises `NotFoundError`."""
    row = require(connection, actor, key)
    slots = slots_ahead(row.cron, row.zone, after, count=count)
    return OccurrenceList(
        items=[occurrence_of(slot) for slot in slots],
        cron=row.cron,
        cron_words=words_of(row.cron),
        zone=row.zone,
        paused=row.paused_at is not None,
        tzdata_version=TZDATA_VERSION,
    )
