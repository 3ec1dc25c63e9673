"""Runs held against what their profile predicts.

Going down loses them.
"""

import sqlalchemy as sa
from alembic import op

from service.db.types import UtcDateTime

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "back_test",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("profile_revision_id", sa.Uuid(), nullable=False),
        sa.Column("profile_slug", sa.String(length=64), nullable=False),
        sa.Column("profile_revision", sa.Integer(), nullable=False),
        sa.Column("defaults_digest", sa.String(length=80), nullable=False),
        sa.Column("source_key", sa.String(length=220), nullable=False),
        sa.Column("run_key", sa.String(length=220), nullable=False),
        sa.Column("run_name", sa.String(length=200), nullable=False),
        sa.Column("calibration_id", sa.Uuid(), nullable=True),
        sa.Column("num_gpus", sa.BigInteger(), nullable=False),
        sa.Column("num_steps", sa.BigInteger(), nullable=False),
        sa.Column("observed_at", UtcDateTime(), nullable=False),
        sa.Column("observed_step_mean_ms", sa.Float(53), nullable=False),
        sa.Column("predicted_step_mean_ms", sa.Float(53), nullable=False),
        sa.Column("ratio", sa.Float(53), nullable=False),
        sa.Column("departure", sa.Float(53), nullable=True),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("explained_by", sa.String(length=20), nullable=True),
        sa.Column("tolerance_fraction", sa.Float(53), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("model_version", sa.String(length=20), nullable=False),
        sa.ForeignKeyConstraint(
            ["profile_revision_id"],
            ["cluster_profile_revision.id"],
            name=op.f("fk_back_test_profile_revision_id"),
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_back_test_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_back_test")),
        sa.UniqueConstraint(
            "profile_revision_id",
            "source_key",
            name=op.f("uq_back_test_profile_revision_id_source_key"),
        ),
    )
    op.create_index(
        "ix_back_test_team_id_observed_at", "back_test", ["team_id", "observed_at", "id"]
    )
    op.create_index(
        "ix_back_test_series",
        "back_test",
        ["team_id", "profile_slug", "defaults_digest", "observed_at"],
    )
    op.create_index(
        "ix_back_test_team_id_calibration_id", "back_test", ["team_id", "calibration_id"]
    )


def downgrade() -> None:
    op.drop_index("ix_back_test_team_id_calibration_id", table_name="back_test")
    op.drop_index("ix_back_test_series", table_name="back_test")
    op.drop_index("ix_back_test_team_id_observed_at", table_name="back_test")
    op.drop_table("back_test")
