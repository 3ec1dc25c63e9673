"""Batches run by the durable engine: priority, deadline, reuse, deletion; files and workers."""

import sqlalchemy as sa
from alembic import op

from service.db.types import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _identity() -> list[sa.Column[object]]:
    return [
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
    ]


def upgrade() -> None:
    # Plain ALTER, no batch mode: SQLite would make the table anew, and dropping the old one
    # deletes the rows of every table that refers to it.
    op.add_column(
        "scenario_batch", sa.Column("priority", sa.Integer(), nullable=False, server_default="5")
    )
    op.add_column("scenario_batch", sa.Column("deadline_at", UtcDateTime()))
    op.add_column("scenario_batch", sa.Column("reused_from", sa.Uuid()))
    op.add_column("scenario_batch", sa.Column("retry_of", sa.Uuid()))
    op.add_column("scenario_batch", sa.Column("enqueued_version", sa.Integer()))
    op.add_column("scenario_batch", sa.Column("deleted_at", UtcDateTime()))
    # A batch that the first version's runner held is free: the engine enqueues what is missing.
    op.drop_column("scenario_batch", "runner")
    op.drop_column("scenario_batch", "lease_until")
    op.create_index(
        op.f("ix_scenario_batch_team_id_input_digest"),
        "scenario_batch",
        ["team_id", "input_digest"],
    )
    op.add_column("chunk_ledger", sa.Column("worker", sa.String(length=120)))
    op.add_column("chunk_ledger", sa.Column("failure", sa.String(length=500)))
    op.create_index(op.f("ix_chunk_ledger_created_at"), "chunk_ledger", ["created_at"])
    op.create_table(
        "worker",
        sa.Column("id", sa.String(length=120), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("process", sa.Integer(), nullable=False),
        sa.Column("compute_processes", sa.Integer(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker")),
    )
    op.create_table(
        "export_file",
        *_identity(),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("format", sa.String(length=16), nullable=False),
        sa.Column("query", sa.JSON(), nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64)),
        sa.Column("sidecar", sa.JSON()),
        sa.Column("failure", sa.Text()),
        sa.Column("enqueued_version", sa.Integer()),
        sa.Column("running_at", UtcDateTime()),
        sa.Column("ended_at", UtcDateTime()),
        sa.Column("expires_at", UtcDateTime()),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_export_file_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_export_file")),
    )
    op.create_index(op.f("ix_export_file_state"), "export_file", ["state"])
    op.create_index(
        op.f("ix_export_file_team_id_created_at"), "export_file", ["team_id", "created_at", "id"]
    )
    op.create_table(
        "export_part",
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("export_id", sa.Uuid(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("first_byte", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_export_part_team_id")),
        sa.ForeignKeyConstraint(
            ["export_id"],
            ["export_file.id"],
            name=op.f("fk_export_part_export_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("export_id", "part", name=op.f("pk_export_part")),
    )
    op.create_table(
        "publication",
        *_identity(),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("failure", sa.Text()),
        sa.Column("enqueued_version", sa.Integer()),
        sa.Column("ended_at", UtcDateTime()),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_publication_team_id")),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["scenario_batch.id"],
            name=op.f("fk_publication_batch_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_publication")),
        sa.UniqueConstraint("batch_id", name=op.f("uq_publication_batch_id")),
    )


def downgrade() -> None:
    op.drop_table("publication")
    op.drop_table("export_part")
    op.drop_table("export_file")
    op.drop_table("worker")
    op.drop_index(op.f("ix_chunk_ledger_created_at"), table_name="chunk_ledger")
    op.drop_column("chunk_ledger", "failure")
    op.drop_column("chunk_ledger", "worker")
    op.drop_index(op.f("ix_scenario_batch_team_id_input_digest"), table_name="scenario_batch")
    op.add_column("scenario_batch", sa.Column("lease_until", UtcDateTime()))
    op.add_column("scenario_batch", sa.Column("runner", sa.String(length=100)))
    op.drop_column("scenario_batch", "deleted_at")
    op.drop_column("scenario_batch", "enqueued_version")
    op.drop_column("scenario_batch", "retry_of")
    op.drop_column("scenario_batch", "reused_from")
    op.drop_column("scenario_batch", "deadline_at")
    op.drop_column("scenario_batch", "priority")
