"""What is asked of an export, and what is told about an exported file."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import Meta, Struct

from service.jobs.comparisons import ComparedBatches
from service.jobs.result_queries import ResultFilters

ExportFormat = Annotated[
    Literal["csv", "jsonl", "parquet", "arrow"],
    Meta(description="csv, jsonl (JSON Lines), parquet, or arrow: an Arrow IPC stream."),
]
ExportState = Literal["queued", "running", "succeeded", "failed"]


class ExportQuery(ResultFilters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which results to export, and in which format."""

    format: ExportFormat = "csv"


class ComparisonExportQuery(ComparedBatches, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which comparison to export, and in which format."""

    format: ExportFormat = "csv"


class ComparisonIn(
    ComparedBatches, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Two batches whose comparison is to be exported."""


class ExportIn(
    ResultFilters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A file to be made: the filters of the list of results, or a comparison."""

    format: ExportFormat = "csv"
    comparison: (
        Annotated[
            ComparisonIn,
            Meta(description="Export this comparison; no filters of results beside it."),
        ]
        | None
    ) = None


class ExportOut(Struct, frozen=True, kw_only=True):
    """A file that is made, or was. It is there when `state` is succeeded, until `expires_at`."""

    id: UUID
    state: ExportState
    format: ExportFormat
    query: Annotated[
        dict[str, Any] | None, Meta(description="The body that it was asked for with.")
    ]
    rows: Annotated[int | None, Meta(description="Rows written so far.")]
    bytes: Annotated[int | None, Meta(description="Bytes written so far.")]
    sha256: Annotated[str | None, Meta(description="Of the whole file, in hexadecimal digits.")]
    failure: Annotated[str | None, Meta(description="Why there is no file.")]
    created_at: datetime
    created_by: str
    running_at: datetime | None
    ended_at: datetime | None
    expires_at: Annotated[datetime | None, Meta(description="When the file is deleted.")]
    content_url: Annotated[str | None, Meta(description="The file, once it is there.")]
    sidecar_url: Annotated[str | None, Meta(description="What the file holds.")]
    with_costs: Annotated[
        bool,
        Meta(
            description="Whether whoever asked for it could see money. Then it is withheld from "
            "those without the scope costs:read: query, rows, bytes, SHA-256 and URLs are null."
        ),
    ]
    version: int


class ExportColumn(Struct, frozen=True, kw_only=True):
    """One column of a file."""

    name: str
    kind: Annotated[str, Meta(description="float64, int64, bool, enum, text, decimal or date.")]
    unit: str
    sentence: str
    labels: list[str]


class ExportedBatch(Struct, frozen=True, kw_only=True):
    """A batch whose points a file may hold, and the pricing that they are shown with."""

    id: UUID
    name: str
    model_version: str
    pricing: int | None
    currency: str | None
    rates_as_of: datetime | None


class Sidecar(Struct, frozen=True, kw_only=True):
    """What stands beside a file, so that it explains and proves itself."""

    id: UUID
    format: ExportFormat
    media_type: str
    file_name: str
    rows: int
    bytes: int
    sha256: str
    query: dict[str, Any]
    columns: list[ExportColumn]
    batches: list[ExportedBatch]
    model_versions: list[str]
    trainard_version: str
    snapshot_at: Annotated[
        datetime, Meta(description="The moment whose stored state the file shows.")
    ]
    created_at: datetime
    created_by: str
