"""The documents of the audit trail."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

Outcome = Literal["done", "refused", "read"]


class AuditEventOut(Struct, frozen=True, kw_only=True):
    """One event, as it is stored; of all fields but `hash` the hash is made."""

    sequence: Annotated[int, Meta(description="From 1, without a gap within the team.")]
    team_id: UUID
    created_at: datetime
    actor: Annotated[str, Meta(description="Name of the key, person or program at that time.")]
    principal: Annotated[
        str,
        Meta(
            description="Who it was, whatever the name: `key:<id>`, `oidc:<digest>`, "
            "`program:<command>`, or `local` while no key existed."
        ),
    ]
    role: str
    action: Annotated[str, Meta(description="Id of the operation, or what a program did.")]
    outcome: Annotated[
        Outcome,
        Meta(description="`done`: changed; `refused`: not allowed; `read`: money was shown."),
    ]
    subject: Annotated[str, Meta(description="What it was about.")]
    changed: Annotated[list[str], Meta(description="Names of the fields that changed.")]
    before_digest: Annotated[str, Meta(description="SHA-256 of the document before.")] | None
    after_digest: Annotated[str, Meta(description="SHA-256 of the document after.")] | None
    request: Annotated[str, Meta(description="Method, path and query.")] | None
    trace_id: str | None
    address: Annotated[str, Meta(description="Where the request came from.")] | None
    detail: str | None
    previous_hash: (
        Annotated[str, Meta(description="`hash` of the event before; null until it is sealed.")]
        | None
    )
    hash: Annotated[str, Meta(description="Null until it is sealed, within a second.")] | None


class AuditEventPage(Struct, frozen=True, kw_only=True):
    """A page of events, newest first."""

    items: list[AuditEventOut]
    next_page_token: str | None
