"""The first tables and the default team."""

from datetime import UTC, datetime
from uuid import UUID

import sqlalchemy as sa
from alembic import op

from service.db.types import DecimalText, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Written out, not imported: a migration must mean the same for ever.
DEFAULT_TEAM_ID = UUID("00000000-0000-7000-8000-000000000001")


def upgrade() -> None:
    op.create_table(
        "team",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("slug", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_team")),
        sa.UniqueConstraint("slug", name=op.f("uq_team_slug")),
    )
    op.create_table(
        "cluster_profile",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("slug", sa.String(length=64), nullable=False),
        sa.Column("newest_revision", sa.Integer(), nullable=False),
        sa.Column("archived_at", UtcDateTime()),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_cluster_profile_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_profile")),
        sa.UniqueConstraint("team_id", "slug", name=op.f("uq_cluster_profile_team_id_slug")),
    )
    op.create_table(
        "gpu_hour_rate",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("gpu_type", sa.String(length=64), nullable=False),
        sa.Column("cost_center", sa.String(length=64)),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("amount", DecimalText(), nullable=False),
        sa.Column("valid_from", sa.Date(), nullable=False),
        sa.Column("valid_until", sa.Date()),
        sa.Column("source", sa.String(length=500), nullable=False),
        sa.Column("recorded_at", UtcDateTime(), nullable=False),
        sa.Column("recorded_by", sa.String(length=200), nullable=False),
        sa.Column("superseded_by", sa.Uuid()),
        sa.Column("superseded_at", UtcDateTime()),
        sa.Column("reason", sa.String(length=500)),
        sa.Column("approved_by", sa.String(length=200)),
        sa.ForeignKeyConstraint(
            ["superseded_by"], ["gpu_hour_rate.id"], name=op.f("fk_gpu_hour_rate_superseded_by")
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_gpu_hour_rate_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gpu_hour_rate")),
    )
    op.create_index(
        "ix_gpu_hour_rate_key", "gpu_hour_rate", ["team_id", "gpu_type", "currency", "valid_from"]
    )
    op.create_table(
        "gpu_hour_rate_key",
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("key", sa.String(length=300), nullable=False),
        sa.ForeignKeyConstraint(
            ["team_id"], ["team.id"], name=op.f("fk_gpu_hour_rate_key_team_id")
        ),
        sa.UniqueConstraint("team_id", "key", name=op.f("uq_gpu_hour_rate_key_team_id_key")),
    )
    op.create_table(
        "idempotency_key",
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("method", sa.String(length=8), nullable=False),
        sa.Column("path", sa.String(length=500), nullable=False),
        sa.Column("body_digest", sa.String(length=80), nullable=False),
        sa.Column("answered", sa.Boolean(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("headers", sa.JSON()),
        sa.Column("body", sa.LargeBinary()),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_idempotency_key_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idempotency_key")),
        sa.UniqueConstraint("team_id", "key", name=op.f("uq_idempotency_key_team_id_key")),
    )
    op.create_table(
        "scenario_batch",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("start_on", sa.Date(), nullable=False),
        sa.Column("currency", sa.String(length=3)),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("items_total", sa.Integer(), nullable=False),
        sa.Column("points_total", sa.BigInteger(), nullable=False),
        sa.Column("points_done", sa.BigInteger(), nullable=False),
        sa.Column("points_failed", sa.BigInteger(), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("input_digest", sa.String(length=80), nullable=False),
        sa.Column("model_version", sa.String(length=20), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("failure", sa.Text()),
        sa.Column("queued_at", UtcDateTime(), nullable=False),
        sa.Column("running_at", UtcDateTime()),
        sa.Column("canceling_at", UtcDateTime()),
        sa.Column("ended_at", UtcDateTime()),
        sa.Column("runner", sa.String(length=100)),
        sa.Column("lease_until", UtcDateTime()),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_scenario_batch_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scenario_batch")),
    )
    op.create_index("ix_scenario_batch_state", "scenario_batch", ["state"])
    op.create_index(
        "ix_scenario_batch_team_id_created_at", "scenario_batch", ["team_id", "created_at", "id"]
    )
    op.create_table(
        "chunk_ledger",
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("num_points", sa.Integer(), nullable=False),
        sa.Column("points_failed", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["scenario_batch.id"],
            name=op.f("fk_chunk_ledger_batch_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_chunk_ledger_team_id")),
        sa.PrimaryKeyConstraint("batch_id", "chunk", name=op.f("pk_chunk_ledger")),
    )
    op.create_table(
        "cluster_profile_revision",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("profile_id", sa.Uuid(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("gpu_type", sa.String(length=64), nullable=False),
        sa.Column("cost_center", sa.String(length=64)),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("defaults", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["profile_id"],
            ["cluster_profile.id"],
            name=op.f("fk_cluster_profile_revision_profile_id"),
        ),
        sa.ForeignKeyConstraint(
            ["team_id"], ["team.id"], name=op.f("fk_cluster_profile_revision_team_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_profile_revision")),
        sa.UniqueConstraint(
            "profile_id", "revision", name=op.f("uq_cluster_profile_revision_profile_id_revision")
        ),
    )
    op.create_table(
        "pricing",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("currency", sa.String(length=3)),
        sa.Column("rates_as_of", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["scenario_batch.id"],
            name=op.f("fk_pricing_batch_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_pricing_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pricing")),
        sa.UniqueConstraint("batch_id", "sequence", name=op.f("uq_pricing_batch_id_sequence")),
    )
    op.create_table(
        "result_block",
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("column", sa.String(length=120), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("num_rows", sa.Integer(), nullable=False),
        sa.Column("num_nulls", sa.Integer(), nullable=False),
        sa.Column("minimum", sa.Float(precision=53)),
        sa.Column("maximum", sa.Float(precision=53)),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["scenario_batch.id"],
            name=op.f("fk_result_block_batch_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_result_block_team_id")),
        sa.PrimaryKeyConstraint("batch_id", "block", "column", name=op.f("pk_result_block")),
    )
    op.create_table(
        "batch_item",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("custom_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("profile_revision_id", sa.Uuid()),
        sa.Column("profile_slug", sa.String(length=64)),
        sa.Column("profile_revision", sa.Integer()),
        sa.Column("gpu_type", sa.String(length=64)),
        sa.Column("cost_center", sa.String(length=64)),
        sa.Column("start_on", sa.Date(), nullable=False),
        sa.Column("scenario", sa.JSON(), nullable=False),
        sa.Column("axes", sa.JSON(), nullable=False),
        sa.Column("first_point", sa.BigInteger(), nullable=False),
        sa.Column("num_points", sa.BigInteger(), nullable=False),
        sa.Column("headline_point", sa.BigInteger()),
        sa.Column("input_digest", sa.String(length=80), nullable=False),
        sa.Column("points_done", sa.BigInteger(), nullable=False),
        sa.Column("points_failed", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["scenario_batch.id"],
            name=op.f("fk_batch_item_batch_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["profile_revision_id"],
            ["cluster_profile_revision.id"],
            name=op.f("fk_batch_item_profile_revision_id"),
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_batch_item_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batch_item")),
        sa.UniqueConstraint("batch_id", "custom_id", name=op.f("uq_batch_item_batch_id_custom_id")),
        sa.UniqueConstraint("batch_id", "position", name=op.f("uq_batch_item_batch_id_position")),
    )
    op.create_index("ix_batch_item_team_id_name", "batch_item", ["team_id", "name"])
    op.create_table(
        "pricing_line",
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("pricing_id", sa.Uuid(), nullable=False),
        sa.Column("item_id", sa.Uuid(), nullable=False),
        sa.Column("rate_id", sa.Uuid()),
        sa.Column("amount", DecimalText()),
        sa.Column("num_days", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["item_id"], ["batch_item.id"], name=op.f("fk_pricing_line_item_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["pricing_id"],
            ["pricing.id"],
            name=op.f("fk_pricing_line_pricing_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["rate_id"], ["gpu_hour_rate.id"], name=op.f("fk_pricing_line_rate_id")
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_pricing_line_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pricing_line")),
    )
    op.create_index("ix_pricing_line_pricing_id_item_id", "pricing_line", ["pricing_id", "item_id"])
    op.create_table(
        "result_summary",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("item_id", sa.Uuid(), nullable=False),
        sa.Column("point", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("profile_slug", sa.String(length=64)),
        sa.Column("profile_revision", sa.Integer()),
        sa.Column("start_on", sa.Date(), nullable=False),
        sa.Column("period_days", sa.Integer(), nullable=False),
        sa.Column("num_gpus", sa.BigInteger(), nullable=False),
        sa.Column("ideal_step_ms", sa.Float(precision=53), nullable=False),
        sa.Column("step_mean_ms", sa.Float(precision=53), nullable=False),
        sa.Column("efficiency_fraction", sa.Float(precision=53), nullable=False),
        sa.Column("gpu_hours_available", sa.Float(precision=53), nullable=False),
        sa.Column("gpu_hours_lost", sa.Float(precision=53), nullable=False),
        sa.Column("gpu_hours_not_useful", sa.Float(precision=53), nullable=False),
        sa.Column("model_version", sa.String(length=20), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["scenario_batch.id"],
            name=op.f("fk_result_summary_batch_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["item_id"],
            ["batch_item.id"],
            name=op.f("fk_result_summary_item_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_result_summary_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_result_summary")),
        sa.UniqueConstraint("batch_id", "point", name=op.f("uq_result_summary_batch_id_point")),
    )
    op.create_index(
        "ix_result_summary_history", "result_summary", ["team_id", "name", "created_at"]
    )
    op.bulk_insert(
        sa.table(
            "team",
            sa.column("id", sa.Uuid()),
            sa.column("slug", sa.String()),
            sa.column("name", sa.String()),
            sa.column("created_at", UtcDateTime()),
        ),
        [
            {
                "id": DEFAULT_TEAM_ID,
                "slug": "default",
                "name": "Default team",
                "created_at": datetime.now(UTC),
            }
        ],
    )


def downgrade() -> None:
    op.drop_index("ix_result_summary_history", table_name="result_summary")
    op.drop_table("result_summary")
    op.drop_index("ix_pricing_line_pricing_id_item_id", table_name="pricing_line")
    op.drop_table("pricing_line")
    op.drop_index("ix_batch_item_team_id_name", table_name="batch_item")
    op.drop_table("batch_item")
    op.drop_table("result_block")
    op.drop_table("pricing")
    op.drop_table("cluster_profile_revision")
    op.drop_table("chunk_ledger")
    op.drop_index("ix_scenario_batch_team_id_created_at", table_name="scenario_batch")
    op.drop_index("ix_scenario_batch_state", table_name="scenario_batch")
    op.drop_table("scenario_batch")
    op.drop_table("idempotency_key")
    op.drop_table("gpu_hour_rate_key")
    op.drop_index("ix_gpu_hour_rate_key", table_name="gpu_hour_rate")
    op.drop_table("gpu_hour_rate")
    op.drop_table("cluster_profile")
    op.drop_table("team")
