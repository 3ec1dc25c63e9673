"""What a caller sends for a webhook endpoint and what it gets back."""

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from service.jobs.egress import MAX_URL_LENGTH
from service.jobs.labels import LABEL_PATTERN
from service.jobs.reason_sentences import Coded

DEFAULT_OVERLAP_S: Final = 86_400
MAX_OVERLAP_S: Final = 7 * 86_400

EndpointName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        examples=["chat of the platform team"],
        extra_json_schema={"pattern": LABEL_PATTERN},
    ),
]
EndpointUrl = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_URL_LENGTH,
        description="https, port 443 or from 1024 on, without user and password. Its name must "
        "have public addresses only, or ones in the service's TRAINARD_WEBHOOK_EGRESS: that is "
        "checked at every attempt.",
        examples=["https://hooks.example.org/trainard"],
    ),
]
IncludeCosts = Annotated[
    bool, Meta(description="Whether messages may hold money; to say so needs costs:read.")
]


class EndpointIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new webhook endpoint."""

    name: EndpointName
    url: EndpointUrl
    include_costs: IncludeCosts = False


class EndpointChangeIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be another; what is not given stays.

    `enabled: false` cancels what waits for it; `true` takes it back into use. `url`,
    `include_costs` and `enabled: true` need costs:read where it is or was sent money.
    """

    name: EndpointName | UnsetType = UNSET
    url: EndpointUrl | UnsetType = UNSET
    include_costs: IncludeCosts | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class RotationIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the secret is rotated."""

    overlap_s: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_OVERLAP_S,
            description="So long both secrets sign: one day by default; 0 when the old one leaked.",
        ),
    ] = DEFAULT_OVERLAP_S


class EndpointOut(Struct, frozen=True, kw_only=True):
    """An endpoint; its secret is not shown again."""

    id: UUID
    name: str
    url: Annotated[
        str,
        Meta(description="Without its path for those without webhooks:write: it may be a secret."),
    ]
    notice: Annotated[
        str | None,
        Meta(description="What to know of the URL: that it works within private networks only."),
    ]
    notice_coded: Coded | None = None
    include_costs: bool
    enabled: bool
    disabled_at: datetime | None
    disabled_reason: str | None
    disabled_reason_coded: Coded | None = None
    old_secrets_end_at: Annotated[
        list[datetime], Meta(description="Rotated secrets that sign too until then.")
    ]
    created_at: datetime
    created_by: str
    updated_at: datetime
    version: int


class NewEndpointOut(EndpointOut, frozen=True, kw_only=True):
    """An endpoint with a secret that was just made."""

    secret: Annotated[
        str | None,
        Meta(
            description="`whsec_…`, what the receiver checks signatures with. Shown once: null "
            "when the request is repeated under its Idempotency-Key."
        ),
    ]


class EndpointPage(Struct, frozen=True, kw_only=True):
    """A page of endpoints, the oldest first."""

    items: list[EndpointOut]
    next_page_token: str | None
