"""What a page sends to sign somebody in, and learns of who looks at it."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from service.jobs.scopes import Role, Scope


class SignInIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who signs in."""

    key: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=16_384,
            description="An API key, `trn_<id>_<secret>`.",
            extra_json_schema={"format": "password", "writeOnly": True},
        ),
    ]


class SessionOut(Struct, frozen=True, kw_only=True):
    """Who sends the request, and what they may do."""

    is_open: Annotated[
        bool,
        Meta(description="No key was ever made: everybody who reaches the service may do all."),
    ]
    signed_in: Annotated[bool, Meta(description="By a cookie, a key or a token that is good.")]
    name: str | None = None
    role: Role | None = None
    team: Annotated[str, Meta(description="Slug of the team.")] | None = None
    scopes: tuple[Scope, ...] = ()
    expires_at: (
        Annotated[datetime, Meta(description="When the session of a cookie ends at the latest.")]
        | None
    ) = None
