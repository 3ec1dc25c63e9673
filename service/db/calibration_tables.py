"""The table of what observed timings told."""

from sqlalchemy import JSON, Column, Float, ForeignKey, Index, Integer, String, Table, Uuid

from service.db.table_parts import identity, metadata

# The files themselves are not kept: their digests, and all that was found in them.
calibration = Table(
    "calibration",
    metadata,
    *identity(),
    Column("name", String(200), nullable=False),
    Column("state", String(16), nullable=False),
    # The revision that the timings are said to be of
    Column("profile_revision_id", Uuid, ForeignKey("cluster_profile_revision.id")),
    Column("profile_slug", String(64)),
    Column("profile_revision", Integer),
    Column("options", JSON, nullable=False),
    Column("findings", JSON, nullable=False),
    Column("source_digest", String(80), nullable=False),
    Column("model_version", String(20), nullable=False),
    # What a list shows, since findings are long
    Column("num_steps", Integer, nullable=False),
    Column("num_ranks", Integer, nullable=False),
    Column("compute_ms", Float(53), nullable=False),
    Column("persistent_cv", Float(53)),
    Column("transient_cv", Float(53)),
    Column("num_outliers", Integer, nullable=False),
    Column("slowest_to_median_mean_ratio", Float(53), nullable=False),
    Column("overlap_verdict", String(20)),
    # The newest revision that it was accepted as
    Column("accepted_slug", String(64)),
    Column("accepted_revision", Integer),
    Index("ix_calibration_team_id_created_at", "team_id", "created_at", "id"),
    Index("ix_calibration_team_id_profile_slug", "team_id", "profile_slug"),
    Index("ix_calibration_profile_revision_id", "profile_revision_id"),
)
