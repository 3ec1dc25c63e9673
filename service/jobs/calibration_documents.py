"""What a caller says about observed timings and what it gets back."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from service.calibration.findings import Findings, Verdict
from service.calibration.options import CalibrationOptions
from service.jobs.batch_documents import Overrides
from service.jobs.labels import CostCenter, GpuType, ProfileName, Slug
from service.jobs.profile_documents import Tags

MOST_PATHS = 200

CalibrationState = Literal["proposed", "accepted"]
CalibrationName = Annotated[str, Meta(min_length=1, max_length=200)]
Path = Annotated[str, Meta(min_length=1, max_length=200, examples=["variability.transient"])]


class AcceptedAs(Struct, frozen=True, kw_only=True):
    """The newest profile revision that was made of a calibration."""

    slug: str
    revision: int


class CalibrationPreview(Struct, frozen=True, kw_only=True):
    """What timings tell; nothing of it is stored.

    The files are not kept: `source_digest` is over their SHA-256s, in the order of their names.
    """

    name: str
    profile: Annotated[str | None, Meta(description="`slug@revision` that they are said to be of.")]
    options: CalibrationOptions
    findings: Findings
    source_digest: str
    model_version: str


class CalibrationOut(CalibrationPreview, frozen=True, kw_only=True):
    """A stored calibration; it is `accepted` when a profile revision was made of it."""

    id: UUID
    state: CalibrationState
    accepted_as: AcceptedAs | None
    team: str
    created_at: datetime
    created_by: str
    updated_at: datetime
    version: int


class CalibrationSummary(Struct, frozen=True, kw_only=True):
    """A calibration in a list: `persistent_cv` and `transient_cv` are of the healthy ranks."""

    id: UUID
    name: str
    state: CalibrationState
    profile: str | None
    num_steps: int
    num_ranks: int
    compute_ms: float
    persistent_cv: float | None
    transient_cv: float | None
    num_outliers: int
    slowest_to_median_mean_ratio: float
    overlap_verdict: Verdict | None
    accepted_as: AcceptedAs | None
    created_at: datetime
    created_by: str
    version: int


class CalibrationPage(Struct, frozen=True, kw_only=True):
    """A page of calibrations, newest first."""

    items: list[CalibrationSummary]
    next_page_token: str | None


class NewProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What timings cannot tell of a profile that does not exist yet."""

    name: ProfileName
    gpu_type: GpuType
    cost_center: CostCenter | None = None
    tags: Tags = {}


class AcceptanceIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which values of the proposal become a revision of which profile.

    The profile is revised when it is there, and `profile_version` is the version that was read; it
    is made when it is not, and `new_profile` says what it is.
    """

    profile: Slug
    profile_version: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    new_profile: NewProfile | None = None
    take: (
        Annotated[
            list[Path],
            Meta(
                min_length=1,
                max_length=MOST_PATHS,
                description="Paths of the proposal; default: all that are proposed.",
            ),
        ]
        | None
    ) = None
    scenario: (
        Annotated[
            Overrides,
            Meta(
                description="Paths and values put in beside and after those of the proposal, such "
                "as what the timings do not tell."
            ),
        ]
        | None
    ) = None
