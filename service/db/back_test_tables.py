"""The table of runs held against what their profile predicts."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    UniqueConstraint,
    Uuid,
)

from service.db.table_parts import identity, metadata
from service.db.types import UtcDateTime

# Rows are records: none is ever changed.
back_test = Table(
    "back_test",
    metadata,
    *identity(),
    Column("profile_revision_id", Uuid, ForeignKey("cluster_profile_revision.id"), nullable=False),
    Column("profile_slug", String(64), nullable=False),
    Column("profile_revision", Integer, nullable=False),
    # Of the revision's scenario: revisions that differ in labels only are one series of runs
    Column("defaults_digest", String(80), nullable=False),
    # What was tested, once of a revision: the run of this name, or the calibration of this id
    Column("source_key", String(220), nullable=False),
    # What was observed: of equal ones only the newest counts in a series
    Column("run_key", String(220), nullable=False),
    Column("run_name", String(200), nullable=False),
    # No foreign key: the calibration may be deleted, the record of what it showed stays.
    Column("calibration_id", Uuid),
    Column("num_gpus", BigInteger, nullable=False),
    Column("num_steps", BigInteger, nullable=False),
    Column("observed_at", UtcDateTime, nullable=False),
    Column("observed_step_mean_ms", Float(53), nullable=False),
    Column("predicted_step_mean_ms", Float(53), nullable=False),
    Column("ratio", Float(53), nullable=False),
    # Null where nobody knows what chance explains
    Column("departure", Float(53)),
    Column("verdict", String(16), nullable=False),
    Column("explained_by", String(20)),
    Column("tolerance_fraction", Float(53), nullable=False),
    Column("document", JSON, nullable=False),
    Column("model_version", String(20), nullable=False),
    UniqueConstraint("profile_revision_id", "source_key"),
    Index("ix_back_test_team_id_observed_at", "team_id", "observed_at", "id"),
    Index("ix_back_test_series", "team_id", "profile_slug", "defaults_digest", "observed_at"),
    Index("ix_back_test_team_id_calibration_id", "team_id", "calibration_id"),
)
