"""Reading the audit trail: pages of a team's events, and all of them for an export."""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

import msgspec

from service.db import audit as rows
from service.db.audit import AuditFilter
from service.db.engine import Connection, Database
from service.errors import MalformedError
from service.jobs.actors import Actor
from service.jobs.audit_documents import AuditEventOut, AuditEventPage
from service.jobs.audit_hashes import event_of
from service.jobs.page_tokens import make_token, read_token

EVENTS_PER_PAGE: Final = 1_000
MAX_SEQUENCE: Final = 2**63 - 1


def list_page(
    connection: Connection,
    actor: Actor,
    wanted: AuditFilter,
    *,
    page_size: int,
    page_token: str | None,
) -> AuditEventPage:
    """A page of the team's events, newest first; raises `MalformedError` for a foreign token."""
    query = ["audit-events", msgspec.to_builtins(wanted)]
    before = read_token(page_token, query, int)
    if before is not None and not 0 < before <= MAX_SEQUENCE:
        raise MalformedError("page_token is none of ours")
    found = rows.list_newest(connection, actor.team_id, wanted, before=before, limit=page_size + 1)
    shown = [event_of(row) for row in found[:page_size]]
    return AuditEventPage(
        items=shown,
        next_page_token=make_token(query, shown[-1].sequence) if len(found) > page_size else None,
    )


def iterate_events(
    database: Database, team_id: UUID, wanted: AuditFilter
) -> Iterator[list[AuditEventOut]]:
    """The events of a team, oldest first, in lists that fit into memory.

    Each list is read in a transaction of its own: what is pruned meanwhile is not there, and what
    is recorded meanwhile comes at the end.
    """
    after: int | None = None
    while True:
        with database.read() as connection:
            found = rows.list_from(connection, team_id, wanted, after=after, limit=EVENTS_PER_PAGE)
        if found:
            yield [event_of(row) for row in found]
        if len(found) < EVENTS_PER_PAGE:
            return
        after = found[-1].sequence
