"""All tables. Later versions add rules and tables, never other meanings of these columns."""

import uuid_utils.compat
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    false,
)

from service.db.access_tables import api_key, audit_chain, audit_event, usage_window, web_session
from service.db.back_test_tables import back_test
from service.db.calibration_tables import calibration
from service.db.export_tables import export_file, export_part, publication
from service.db.schedule_tables import (
    delivery,
    delivery_attempt,
    loss_change,
    report,
    schedule,
    schedule_backfill,
    schedule_run,
    webhook_endpoint,
)
from service.db.table_parts import bulk_identity, identity, metadata, utc_now
from service.db.types import DecimalText, UtcDateTime

# All tables and their metadata are found here.
__all__ = [
    "api_key",
    "audit_chain",
    "audit_event",
    "back_test",
    "batch_item",
    "calibration",
    "chunk_ledger",
    "chunk_piece",
    "cluster_profile",
    "cluster_profile_revision",
    "delivery",
    "delivery_attempt",
    "export_file",
    "export_part",
    "gpu_hour_rate",
    "gpu_hour_rate_key",
    "idempotency_key",
    "loss_change",
    "metadata",
    "pricing",
    "pricing_line",
    "publication",
    "report",
    "result_block",
    "result_summary",
    "scenario_batch",
    "schedule",
    "schedule_backfill",
    "schedule_run",
    "team",
    "usage_window",
    "utc_now",
    "web_session",
    "webhook_endpoint",
    "worker",
]

team = Table(
    "team",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("slug", String(64), nullable=False, unique=True),
    Column("name", String(200), nullable=False),
    Column("created_at", UtcDateTime, nullable=False, default=utc_now),
    # Rates of the team price nothing before a second person has approved them.
    Column("rate_approval_required", Boolean, nullable=False, server_default=false()),
)

cluster_profile = Table(
    "cluster_profile",
    metadata,
    *identity(),
    Column("slug", String(64), nullable=False),
    Column("newest_revision", Integer, nullable=False, default=1),
    Column("archived_at", UtcDateTime),
    UniqueConstraint("team_id", "slug"),
)

cluster_profile_revision = Table(
    "cluster_profile_revision",
    metadata,
    *identity(),
    Column("profile_id", Uuid, ForeignKey("cluster_profile.id"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("name", String(200), nullable=False),
    Column("gpu_type", String(64), nullable=False),
    Column("cost_center", String(64)),
    Column("tags", JSON, nullable=False),
    Column("defaults", JSON, nullable=False),
    # Of a revision that was made by accepting a calibration
    Column("provenance", JSON(none_as_null=True)),
    UniqueConstraint("profile_id", "revision"),
)

gpu_hour_rate = Table(
    "gpu_hour_rate",
    metadata,
    *identity(),
    Column("gpu_type", String(64), nullable=False),
    Column("cost_center", String(64)),
    Column("currency", String(3), nullable=False),
    Column("amount", DecimalText, nullable=False),
    Column("valid_from", Date, nullable=False),
    Column("valid_until", Date),
    Column("source", String(500), nullable=False),
    Column("recorded_at", UtcDateTime, nullable=False, default=utc_now),
    Column("recorded_by", String(200), nullable=False),
    Column("superseded_by", Uuid, ForeignKey("gpu_hour_rate.id")),
    Column("superseded_at", UtcDateTime),
    Column("reason", String(500)),
    Column("approved_by", String(200)),
    Column("approved_at", UtcDateTime),
    Index("ix_gpu_hour_rate_key", "team_id", "gpu_type", "currency", "valid_from"),
)

# One row per rate key: it is locked while a rate of the key is written, so that two writers
# on PostgreSQL cannot both find "no overlap" and both insert.
gpu_hour_rate_key = Table(
    "gpu_hour_rate_key",
    metadata,
    *bulk_identity(),
    Column("key", String(300), nullable=False),
    UniqueConstraint("team_id", "key"),
)

scenario_batch = Table(
    "scenario_batch",
    metadata,
    *identity(),
    Column("name", String(200), nullable=False),
    Column("state", String(20), nullable=False),
    Column("start_on", Date, nullable=False),
    Column("currency", String(3)),
    Column("metadata", JSON, nullable=False),
    Column("items_total", Integer, nullable=False),
    Column("points_total", BigInteger, nullable=False),
    Column("points_done", BigInteger, nullable=False, default=0),
    Column("points_failed", BigInteger, nullable=False, default=0),
    Column("columns", JSON, nullable=False),
    Column("input_digest", String(80), nullable=False),
    Column("model_version", String(20), nullable=False),
    Column("warnings", JSON, nullable=False),
    Column("failure", Text),
    Column("queued_at", UtcDateTime, nullable=False),
    Column("running_at", UtcDateTime),
    Column("canceling_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("priority", Integer, nullable=False, server_default="5"),
    Column("deadline_at", UtcDateTime),
    # No foreign keys: the other batch may be deleted before this one.
    Column("reused_from", Uuid),
    Column("retry_of", Uuid),
    # Of the workflow that the engine was given the chunks for; null: not enqueued yet
    Column("enqueued_version", Integer),
    Column("deleted_at", UtcDateTime),
    # Fewer where points take long, so that progress is seen and a cancellation soon heeded
    Column("chunk_points", Integer, nullable=False, server_default="50000"),
    Index("ix_scenario_batch_state", "state"),
    Index("ix_scenario_batch_team_id_input_digest", "team_id", "input_digest"),
    Index("ix_scenario_batch_team_id_created_at", "team_id", "created_at", "id"),
)

batch_item = Table(
    "batch_item",
    metadata,
    *identity(),
    Column("batch_id", Uuid, ForeignKey("scenario_batch.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("custom_id", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("profile_revision_id", Uuid, ForeignKey("cluster_profile_revision.id")),
    Column("profile_slug", String(64)),
    Column("profile_revision", Integer),
    Column("gpu_type", String(64)),
    Column("cost_center", String(64)),
    Column("start_on", Date, nullable=False),
    Column("scenario", JSON, nullable=False),
    Column("axes", JSON, nullable=False),
    Column("first_point", BigInteger, nullable=False),
    Column("num_points", BigInteger, nullable=False),
    Column("headline_point", BigInteger),
    Column("input_digest", String(80), nullable=False),
    Column("points_done", BigInteger, nullable=False, default=0),
    Column("points_failed", BigInteger, nullable=False, default=0),
    UniqueConstraint("batch_id", "position"),
    UniqueConstraint("batch_id", "custom_id"),
    Index("ix_batch_item_team_id_name", "team_id", "name"),
)

chunk_ledger = Table(
    "chunk_ledger",
    metadata,
    *bulk_identity(),
    Column(
        "batch_id",
        Uuid,
        ForeignKey("scenario_batch.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("chunk", Integer, primary_key=True),
    Column("num_points", Integer, nullable=False),
    Column("points_failed", Integer, nullable=False),
    Column("worker", String(120)),
    # Why the whole chunk could not be computed: it has no blocks then
    Column("failure", String(500)),
    Index("ix_chunk_ledger_created_at", "created_at"),
)

# What is computed of a chunk whose points take long, until the chunk is stored.
chunk_piece = Table(
    "chunk_piece",
    metadata,
    *bulk_identity(),
    Column(
        "batch_id",
        Uuid,
        ForeignKey("scenario_batch.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("chunk", Integer, primary_key=True),
    Column("first_point", BigInteger, primary_key=True),
    Column("num_points", Integer, nullable=False),
    # Of the code that computed it: another one's numbers must not be mixed in
    Column("model_version", String(20), nullable=False),
    Column("payload", LargeBinary, nullable=False),
)

# Processes that compute, or did: `seen_at` is renewed every few seconds.
worker = Table(
    "worker",
    metadata,
    Column("id", String(120), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("host", String(255), nullable=False),
    Column("process", Integer, nullable=False),
    Column("compute_processes", Integer, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
)

result_block = Table(
    "result_block",
    metadata,
    *bulk_identity(),
    Column(
        "batch_id",
        Uuid,
        ForeignKey("scenario_batch.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("block", Integer, primary_key=True),
    Column("column", String(120), primary_key=True),
    Column("kind", String(8), nullable=False),
    Column("num_rows", Integer, nullable=False),
    Column("num_nulls", Integer, nullable=False),
    Column("minimum", Float(53)),
    Column("maximum", Float(53)),
    Column("data", LargeBinary, nullable=False),
)

result_summary = Table(
    "result_summary",
    metadata,
    *identity(),
    Column("batch_id", Uuid, ForeignKey("scenario_batch.id", ondelete="CASCADE"), nullable=False),
    Column("item_id", Uuid, ForeignKey("batch_item.id", ondelete="CASCADE"), nullable=False),
    Column("point", BigInteger, nullable=False),
    Column("name", String(200), nullable=False),
    Column("profile_slug", String(64)),
    Column("profile_revision", Integer),
    Column("start_on", Date, nullable=False),
    Column("period_days", Integer, nullable=False),
    Column("num_gpus", BigInteger, nullable=False),
    Column("ideal_step_ms", Float(53), nullable=False),
    Column("step_mean_ms", Float(53), nullable=False),
    Column("efficiency_fraction", Float(53), nullable=False),
    Column("gpu_hours_available", Float(53), nullable=False),
    Column("gpu_hours_lost", Float(53), nullable=False),
    Column("gpu_hours_not_useful", Float(53), nullable=False),
    Column("model_version", String(20), nullable=False),
    # Null where the batch's model did not compute it
    Column("gpu_hours_lost_p10", Float(53)),
    Column("gpu_hours_lost_p50", Float(53)),
    Column("gpu_hours_lost_p90", Float(53)),
    Column("gpu_hours_lost_se", Float(53)),
    UniqueConstraint("batch_id", "point"),
    Index("ix_result_summary_history", "team_id", "name", "created_at"),
    # For the foreign key: without it, deleting an item reads the whole table.
    Index("ix_result_summary_item_id", "item_id"),
)

# What a batch was priced with: one row per pricing, the first made when the batch ends.
pricing = Table(
    "pricing",
    metadata,
    *identity(),
    Column("batch_id", Uuid, ForeignKey("scenario_batch.id", ondelete="CASCADE"), nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("currency", String(3)),
    Column("rates_as_of", UtcDateTime, nullable=False),
    UniqueConstraint("batch_id", "sequence"),
)

pricing_line = Table(
    "pricing_line",
    metadata,
    *bulk_identity(),
    Column("id", Uuid, primary_key=True, default=uuid_utils.compat.uuid7),
    Column("pricing_id", Uuid, ForeignKey("pricing.id", ondelete="CASCADE"), nullable=False),
    Column("item_id", Uuid, ForeignKey("batch_item.id", ondelete="CASCADE"), nullable=False),
    # null rate_id: the days of the window without a rate
    Column("rate_id", Uuid, ForeignKey("gpu_hour_rate.id")),
    Column("amount", DecimalText),
    Column("num_days", Integer, nullable=False),
    Index("ix_pricing_line_pricing_id_item_id", "pricing_id", "item_id"),
    Index("ix_pricing_line_item_id", "item_id"),
)

idempotency_key = Table(
    "idempotency_key",
    metadata,
    *bulk_identity(),
    Column("id", Uuid, primary_key=True, default=uuid_utils.compat.uuid7),
    Column("key", String(255), nullable=False),
    # Who sent it: an answer is never given again to somebody else, who may see less.
    Column("principal", String(200), nullable=False, server_default="local"),
    Column("method", String(8), nullable=False),
    Column("path", String(500), nullable=False),
    Column("body_digest", String(80), nullable=False),
    Column("answered", Boolean, nullable=False, default=False),
    Column("status", Integer),
    Column("headers", JSON),
    Column("body", LargeBinary),
    UniqueConstraint("team_id", "principal", "key"),
    Index("ix_idempotency_key_created_at", "created_at"),
)
