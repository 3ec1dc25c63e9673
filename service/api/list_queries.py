"""Query parameters that lists share, and their checks."""

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct

from service.api.contract import ApiRequest
from service.api.parameters import ParameterFault
from service.api.transactions import settings_of
from service.errors import MalformedError
from service.jobs.documents import MAX_NUMBER
from service.jobs.labels import label_faults

PageSize = Annotated[
    int,
    Meta(
        ge=1,
        le=MAX_NUMBER,
        description="50 by default; more than the limit becomes the limit.",
    ),
]
PageToken = Annotated[
    str, Meta(max_length=4000, description="`next_page_token` of the page before.")
]
Moment = Annotated[
    datetime,
    Meta(tz=True, description="With time zone.", examples=["2026-11-29T00:00:00Z"]),
]


class PageQuery(Struct, frozen=True, kw_only=True):
    """Where in the list."""

    page_size: PageSize = 50
    page_token: PageToken | None = None


def bounded(request: ApiRequest, page_size: int) -> int:
    """The page size, at most the limit of the service."""
    return min(page_size, settings_of(request).limits.page_size)


def in_utc(name: str, moment: datetime | None) -> datetime | None:
    """The moment in UTC; a zone can push it over the ends of the calendar (400)."""
    if moment is None:
        return None
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise MalformedError(f"parameter {name}: {moment} is beyond the calendar") from None


def refuse_malformed_labels(labels: dict[str, str | None]) -> None:
    """Refuse parameters that cannot be a label (400): they would quietly match nothing."""
    faults = [
        ParameterFault(parameter=fault.pointer, code=fault.code, detail=fault.detail)
        for fault in label_faults(labels)
    ]
    if faults:
        detail = "; ".join(f"parameter {fault.parameter}: {fault.detail}" for fault in faults)
        raise MalformedError(detail, errors=faults)
