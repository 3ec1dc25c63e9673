"""What a caller sends for an API key and what it gets back."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from service.jobs.labels import LABEL_PATTERN
from service.jobs.scopes import Role, Scope

KeyName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        description="Who or what uses it; it stands in the audit trail.",
        examples=["nightly-planner"],
        extra_json_schema={"pattern": LABEL_PATTERN},
    ),
]
ExpiresAt = Annotated[
    datetime,
    Meta(
        tz=True,
        description="From then on it is refused: a moment in the future, with time zone.",
        examples=["2027-06-30T00:00:00Z"],
    ),
]


class KeyIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new key: what its role holds, with `grant` beside it, of that `only` these.

    Without `expires_at` it lasts 365 days; null: for ever.
    """

    name: KeyName
    role: Role
    grant: Annotated[
        tuple[Scope, ...],
        Meta(max_length=32, description="Scopes beside the role's: a planner may get costs:read."),
    ] = ()
    only: (
        Annotated[
            tuple[Scope, ...],
            Meta(min_length=1, max_length=32, description="Keep only these of its scopes."),
        ]
        | None
    ) = None
    expires_at: ExpiresAt | UnsetType | None = UNSET


class KeyChangeIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be another; what is not given stays, `expires_at: null` means for ever."""

    name: KeyName | UnsetType = UNSET
    expires_at: ExpiresAt | UnsetType | None = UNSET


class KeyOut(Struct, frozen=True, kw_only=True):
    """A key as it is stored: its secret is not kept and never shown again."""

    id: UUID
    public_id: Annotated[str, Meta(description="The middle part of `trn_<id>_<secret>`.")]
    name: str
    role: Role
    scopes: tuple[Scope, ...]
    team: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: Annotated[
        datetime | None, Meta(description="Renewed once a minute; no part of the version.")
    ]
    revoked_at: datetime | None
    revoked_by: str | None
    version: int


class NewKeyOut(KeyOut, frozen=True, kw_only=True):
    """A key that was just made, with what its owner sends."""

    key: Annotated[
        str | None,
        Meta(
            description="What its owner sends as `Authorization: Bearer …`. Shown once: null when "
            "a creation is repeated under its Idempotency-Key."
        ),
    ]


class KeyPage(Struct, frozen=True, kw_only=True):
    """A page of keys, the oldest first."""

    items: list[KeyOut]
    next_page_token: str | None
