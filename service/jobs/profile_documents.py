"""What a caller sends for a cluster profile and what it gets back."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from service.jobs.batch_documents import ScenarioObject
from service.jobs.labels import CostCenter, GpuType, ProfileName, Slug, TagKey, TagValue

Tags = Annotated[
    dict[TagKey, TagValue], Meta(max_length=32, description="Free labels, for filters.")
]


class RevisionIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a revision says about the cluster; it replaces the one before as a whole."""

    name: ProfileName
    gpu_type: GpuType
    cost_center: CostCenter | None = None
    tags: Tags = {}
    defaults: ScenarioObject


class ProfileIn(RevisionIn, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new profile and its first revision."""

    slug: Slug


class RevisionProvenance(Struct, frozen=True, kw_only=True):
    """Which observed timings a revision comes from, and which of its inputs they decided."""

    calibration_id: UUID
    calibration_name: str
    source_digest: Annotated[str, Meta(description="Over the SHA-256s of the files.")]
    paths: Annotated[list[str], Meta(description="Inputs that were taken as proposed.")]


class ProfileOut(Struct, frozen=True, kw_only=True):
    """A profile with its newest revision."""

    id: UUID
    slug: str
    revision: int
    name: str
    gpu_type: str
    cost_center: str | None
    tags: dict[str, str]
    defaults: ScenarioObject
    provenance: RevisionProvenance | None
    team: str
    archived_at: datetime | None
    created_at: datetime
    created_by: str
    updated_at: datetime
    version: int


class RevisionOut(Struct, frozen=True, kw_only=True):
    """One revision of a profile; it never changes."""

    id: UUID
    slug: str
    revision: int
    name: str
    gpu_type: str
    cost_center: str | None
    tags: dict[str, str]
    defaults: ScenarioObject
    provenance: RevisionProvenance | None
    created_at: datetime
    created_by: str


class ProfilePage(Struct, frozen=True, kw_only=True):
    """A page of profiles, by slug."""

    items: list[ProfileOut]
    next_page_token: str | None


class RevisionPage(Struct, frozen=True, kw_only=True):
    """A page of revisions, newest first."""

    items: list[RevisionOut]
    next_page_token: str | None
