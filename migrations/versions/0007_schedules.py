"""Schedules, their ledger, reports and deliveries.

Going down loses all of them; batches and results stay.
"""

import sqlalchemy as sa
from alembic import op

from service.db.types import UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedule",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("slug", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("cron", sa.String(length=200), nullable=False),
        sa.Column("zone", sa.String(length=64), nullable=False),
        sa.Column("definition", sa.JSON(), nullable=False),
        sa.Column("next_at", UtcDateTime(), nullable=True),
        sa.Column("paused_at", UtcDateTime(), nullable=True),
        sa.Column("paused_by", sa.String(length=200), nullable=True),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.Column("unique_slug", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_schedule_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule")),
        sa.UniqueConstraint("team_id", "unique_slug", name=op.f("uq_schedule_team_id_unique_slug")),
    )
    op.create_index("ix_schedule_next_at", "schedule", ["next_at"], unique=False)
    op.create_table(
        "webhook_endpoint",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("url", sa.String(length=2000), nullable=False),
        sa.Column("secrets", sa.JSON(), nullable=False),
        sa.Column("include_costs", sa.Boolean(), nullable=False),
        sa.Column("disabled_at", UtcDateTime(), nullable=True),
        sa.Column("disabled_reason", sa.String(length=500), nullable=True),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_webhook_endpoint_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_endpoint")),
    )
    op.create_index(
        "ix_webhook_endpoint_team_id_created_at",
        "webhook_endpoint",
        ["team_id", "created_at", "id"],
        unique=False,
    )
    op.create_table(
        "schedule_backfill",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("schedule_id", sa.Uuid(), nullable=False),
        sa.Column("first_on", sa.Date(), nullable=False),
        sa.Column("last_on", sa.Date(), nullable=False),
        sa.Column("reprocess", sa.String(length=16), nullable=False),
        sa.Column("newest_first", sa.Boolean(), nullable=False),
        sa.Column("max_running", sa.Integer(), nullable=False),
        sa.Column("num_slots", sa.Integer(), nullable=False),
        sa.Column("deliver", sa.Boolean(), nullable=False),
        sa.Column("canceled_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["schedule.id"], name=op.f("fk_schedule_backfill_schedule_id")
        ),
        sa.ForeignKeyConstraint(
            ["team_id"], ["team.id"], name=op.f("fk_schedule_backfill_team_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule_backfill")),
    )
    op.create_index(
        "ix_schedule_backfill_schedule_id", "schedule_backfill", ["schedule_id"], unique=False
    )
    op.create_table(
        "schedule_run",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("schedule_id", sa.Uuid(), nullable=False),
        sa.Column("scheduled_for", UtcDateTime(), nullable=False),
        sa.Column("local_time", sa.String(length=40), nullable=False),
        sa.Column("zone", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("backfill_id", sa.Uuid(), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("schedule_version", sa.Integer(), nullable=True),
        sa.Column("settings", sa.JSON(), nullable=True),
        sa.Column("start_on", sa.Date(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column("report_id", sa.Uuid(), nullable=True),
        sa.Column("baseline_run_id", sa.Uuid(), nullable=True),
        sa.Column("baseline_missing", sa.String(length=40), nullable=True),
        sa.Column("earlier_batches", sa.JSON(), nullable=False),
        sa.Column("tzdata_version", sa.String(length=16), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("budget_status", sa.String(length=16), nullable=True),
        sa.Column("budget", sa.JSON(), nullable=True),
        sa.Column("not_before", UtcDateTime(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["backfill_id"], ["schedule_backfill.id"], name=op.f("fk_schedule_run_backfill_id")
        ),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["schedule.id"], name=op.f("fk_schedule_run_schedule_id")
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_schedule_run_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule_run")),
        sa.UniqueConstraint(
            "schedule_id", "scheduled_for", name=op.f("uq_schedule_run_schedule_id_scheduled_for")
        ),
    )
    op.create_index("ix_schedule_run_backfill_id", "schedule_run", ["backfill_id"], unique=False)
    op.create_index("ix_schedule_run_batch_id", "schedule_run", ["batch_id"], unique=False)
    op.create_index("ix_schedule_run_state", "schedule_run", ["state", "created_at"], unique=False)
    op.create_table(
        "delivery",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("message_id", sa.String(length=64), nullable=False),
        sa.Column("dedup_key", sa.String(length=200), nullable=False),
        sa.Column("event", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("endpoint_id", sa.Uuid(), nullable=True),
        sa.Column("target", sa.JSON(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("report_id", sa.Uuid(), nullable=True),
        sa.Column("schedule_id", sa.Uuid(), nullable=True),
        sa.Column("include_costs", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", UtcDateTime(), nullable=True),
        sa.Column("claimed_by", sa.String(length=120), nullable=True),
        sa.Column("claimed_until", UtcDateTime(), nullable=True),
        sa.Column("first_attempt_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("last_status", sa.Integer(), nullable=True),
        sa.Column("last_error", sa.String(length=500), nullable=True),
        sa.Column("outcome", sa.JSON(), nullable=True),
        sa.Column("files_expire_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["endpoint_id"], ["webhook_endpoint.id"], name=op.f("fk_delivery_endpoint_id")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["schedule_run.id"], name=op.f("fk_delivery_run_id")),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["schedule.id"], name=op.f("fk_delivery_schedule_id")
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_delivery_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery")),
        sa.UniqueConstraint("message_id", name=op.f("uq_delivery_message_id")),
        sa.UniqueConstraint("team_id", "dedup_key", name=op.f("uq_delivery_team_id_dedup_key")),
    )
    op.create_index("ix_delivery_endpoint_id", "delivery", ["endpoint_id"], unique=False)
    op.create_index("ix_delivery_files_expire_at", "delivery", ["files_expire_at"], unique=False)
    op.create_index("ix_delivery_run_id", "delivery", ["run_id"], unique=False)
    op.create_index(
        "ix_delivery_state_next_attempt_at", "delivery", ["state", "next_attempt_at"], unique=False
    )
    op.create_index(
        "ix_delivery_team_id_created_at", "delivery", ["team_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "report",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("pricing", sa.Integer(), nullable=False),
        sa.Column("baseline_batch_id", sa.Uuid(), nullable=True),
        sa.Column("baseline_pricing", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("schedule_id", sa.Uuid(), nullable=True),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("enqueued_version", sa.Integer(), nullable=True),
        sa.Column("running_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["schedule_run.id"], name=op.f("fk_report_run_id")),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["schedule.id"], name=op.f("fk_report_schedule_id")
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_report_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_report")),
    )
    op.create_index("ix_report_batch_id", "report", ["batch_id"], unique=False)
    op.create_index("ix_report_run_id", "report", ["run_id"], unique=False)
    op.create_index("ix_report_state", "report", ["state"], unique=False)
    op.create_index(
        "ix_report_team_id_created_at", "report", ["team_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "delivery_attempt",
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("delivery_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("duration_ms", sa.Integer(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.String(length=500), nullable=True),
        sa.Column("answer", sa.String(length=1000), nullable=True),
        sa.ForeignKeyConstraint(
            ["delivery_id"],
            ["delivery.id"],
            name=op.f("fk_delivery_attempt_delivery_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_delivery_attempt_team_id")),
        sa.PrimaryKeyConstraint("delivery_id", "attempt", name=op.f("pk_delivery_attempt")),
    )
    op.create_table(
        "loss_change",
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("report_id", sa.Uuid(), nullable=False),
        sa.Column("point", sa.BigInteger(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("past_batch_id", sa.Uuid(), nullable=False),
        sa.Column("past_point", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("profile_slug", sa.String(length=64), nullable=True),
        sa.Column("past_gpu_hours_lost", sa.Float(precision=53), nullable=False),
        sa.Column("new_gpu_hours_lost", sa.Float(precision=53), nullable=False),
        sa.Column("causes", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["report_id"], ["report.id"], name=op.f("fk_loss_change_report_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_loss_change_team_id")),
        sa.PrimaryKeyConstraint("report_id", "point", name=op.f("pk_loss_change")),
    )
    op.create_index(
        "ix_loss_change_batch_id", "loss_change", ["batch_id", "past_batch_id"], unique=False
    )


def downgrade() -> None:
    op.drop_index("ix_loss_change_batch_id", table_name="loss_change")
    op.drop_table("loss_change")
    op.drop_table("delivery_attempt")
    op.drop_index("ix_report_team_id_created_at", table_name="report")
    op.drop_index("ix_report_state", table_name="report")
    op.drop_index("ix_report_run_id", table_name="report")
    op.drop_index("ix_report_batch_id", table_name="report")
    op.drop_table("report")
    op.drop_index("ix_delivery_team_id_created_at", table_name="delivery")
    op.drop_index("ix_delivery_state_next_attempt_at", table_name="delivery")
    op.drop_index("ix_delivery_run_id", table_name="delivery")
    op.drop_index("ix_delivery_files_expire_at", table_name="delivery")
    op.drop_index("ix_delivery_endpoint_id", table_name="delivery")
    op.drop_table("delivery")
    op.drop_index("ix_schedule_run_state", table_name="schedule_run")
    op.drop_index("ix_schedule_run_batch_id", table_name="schedule_run")
    op.drop_index("ix_schedule_run_backfill_id", table_name="schedule_run")
    op.drop_table("schedule_run")
    op.drop_index("ix_schedule_backfill_schedule_id", table_name="schedule_backfill")
    op.drop_table("schedule_backfill")
    op.drop_index("ix_webhook_endpoint_team_id_created_at", table_name="webhook_endpoint")
    op.drop_table("webhook_endpoint")
    op.drop_index("ix_schedule_next_at", table_name="schedule")
    op.drop_table("schedule")
