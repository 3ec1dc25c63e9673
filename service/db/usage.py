"""What was used of a limit in a window of time, counted by all processes in one row."""

from datetime import datetime
from uuid import UUID

import msgspec
from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from service.db.engine import Connection
from service.db.tables import usage_window


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Whose use of which limit is counted, from when on."""

    team_id: UUID
    principal: str
    policy: str
    start: datetime


def add_within(connection: Connection, window: Window, *, amount: int, limit: int) -> int | None:
    """Use `amount` of the limit: what is used then, or None if it does not fit.

    One statement, so that two transactions cannot both take what is left only once. PostgreSQL
    has the second wait for the first one's end, and look again.
    """
    if amount > limit:
        return None
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    used = usage_window.c.used
    statement = dialect.insert(usage_window).values(
        team_id=window.team_id,
        principal=window.principal,
        policy=window.policy,
        window_start=window.start,
        used=amount,
    )
    found: int | None = connection.execute(
        statement.on_conflict_do_update(
            index_elements=["team_id", "principal", "policy", "window_start"],
            set_={"used": used + amount},
            where=used + amount <= limit,
        ).returning(used)
    ).scalar_one_or_none()
    return found


def used_in(connection: Connection, window: Window) -> int:
    """What is used so far."""
    found = connection.execute(
        select(usage_window.c.used).where(
            usage_window.c.team_id == window.team_id,
            usage_window.c.principal == window.principal,
            usage_window.c.policy == window.policy,
            usage_window.c.window_start == window.start,
        )
    ).scalar_one_or_none()
    return found or 0


def forget_before(connection: Connection, moment: datetime) -> None:
    """Delete the windows that began before; those that another process deletes are left to it."""
    old = (
        select(usage_window.c.id)
        .where(usage_window.c.window_start < moment)
        .with_for_update(skip_locked=True)
    )
    connection.execute(delete(usage_window).where(usage_window.c.id.in_(old)))
