"""Who may do what: API keys, the audit trail, limits shared by processes, approval of rates."""

import sqlalchemy as sa
from alembic import op

from service.db.types import UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Plain ALTER where a table has rows that refer to it (see 0002).
    op.add_column(
        "team",
        sa.Column(
            "rate_approval_required", sa.Boolean(), nullable=False, server_default=sa.false()
        ),
    )
    op.add_column(
        "export_file",
        sa.Column("with_costs", sa.Boolean(), nullable=False, server_default=sa.true()),
    )
    op.add_column("gpu_hour_rate", sa.Column("approved_at", UtcDateTime()))
    # Nothing refers to this table: SQLite may make it anew.
    with op.batch_alter_table("idempotency_key") as table:
        table.add_column(
            sa.Column("principal", sa.String(length=200), nullable=False, server_default="local")
        )
        table.drop_constraint(op.f("uq_idempotency_key_team_id_key"), type_="unique")
        table.create_unique_constraint(
            op.f("uq_idempotency_key_team_id_principal_key"), ["team_id", "principal", "key"]
        )
        table.create_index(op.f("ix_idempotency_key_created_at"), ["created_at"])
    _create_api_key()
    _create_audit()
    _create_usage_window()


def _create_api_key() -> None:
    op.create_table(
        "api_key",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("secret_digest", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("expires_at", UtcDateTime()),
        sa.Column("last_used_at", UtcDateTime()),
        sa.Column("revoked_at", UtcDateTime()),
        sa.Column("revoked_by", sa.String(length=200)),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_api_key_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_key")),
        sa.UniqueConstraint("public_id", name=op.f("uq_api_key_public_id")),
    )
    op.create_index(
        op.f("ix_api_key_team_id_created_at"), "api_key", ["team_id", "created_at", "id"]
    )


def _create_audit() -> None:
    op.create_table(
        "audit_event",
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("principal", sa.String(length=200), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("subject", sa.String(length=300), nullable=False),
        sa.Column("changed", sa.JSON(), nullable=False),
        sa.Column("before_digest", sa.String(length=80)),
        sa.Column("after_digest", sa.String(length=80)),
        sa.Column("request", sa.String(length=500)),
        sa.Column("trace_id", sa.String(length=128)),
        sa.Column("address", sa.String(length=64)),
        sa.Column("detail", sa.String(length=500)),
        sa.Column("previous_hash", sa.String(length=64)),
        sa.Column("hash", sa.String(length=64)),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_audit_event_team_id")),
        sa.PrimaryKeyConstraint("team_id", "sequence", name=op.f("pk_audit_event")),
    )
    op.create_index(
        op.f("ix_audit_event_team_id_created_at"), "audit_event", ["team_id", "created_at"]
    )
    op.create_table(
        "audit_chain",
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("next_sequence", sa.BigInteger(), nullable=False),
        sa.Column("sealed_sequence", sa.BigInteger(), nullable=False),
        sa.Column("sealed_hash", sa.String(length=64), nullable=False),
        sa.Column("pruned_sequence", sa.BigInteger(), nullable=False),
        sa.Column("pruned_hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_audit_chain_team_id")),
        sa.PrimaryKeyConstraint("team_id", name=op.f("pk_audit_chain")),
    )


def _create_usage_window() -> None:
    op.create_table(
        "usage_window",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("principal", sa.String(length=200), nullable=False),
        sa.Column("policy", sa.String(length=16), nullable=False),
        sa.Column("window_start", UtcDateTime(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_usage_window_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage_window")),
        sa.UniqueConstraint(
            "team_id",
            "principal",
            "policy",
            "window_start",
            name=op.f("uq_usage_window_team_id_principal_policy_window_start"),
        ),
    )
    op.create_index(op.f("ix_usage_window_window_start"), "usage_window", ["window_start"])


def downgrade() -> None:
    op.drop_table("usage_window")
    op.drop_table("audit_chain")
    op.drop_table("audit_event")
    op.drop_table("api_key")
    # Two callers may have used the same key; the older version knows only one.
    op.execute("DELETE FROM idempotency_key WHERE principal <> 'local'")
    with op.batch_alter_table("idempotency_key") as table:
        table.drop_index(op.f("ix_idempotency_key_created_at"))
        table.drop_constraint(op.f("uq_idempotency_key_team_id_principal_key"), type_="unique")
        table.create_unique_constraint(op.f("uq_idempotency_key_team_id_key"), ["team_id", "key"])
        table.drop_column("principal")
    op.drop_column("gpu_hour_rate", "approved_at")
    op.drop_column("export_file", "with_costs")
    op.drop_column("team", "rate_approval_required")
