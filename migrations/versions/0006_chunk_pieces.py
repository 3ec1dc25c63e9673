"""Pieces of a long chunk, kept until the chunk is stored.

Going down loses them: what was computed of unfinished chunks is computed again.
"""

import sqlalchemy as sa
from alembic import op

from service.db.types import UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "chunk_piece",
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("first_point", sa.BigInteger(), nullable=False),
        sa.Column("num_points", sa.Integer(), nullable=False),
        sa.Column("model_version", sa.String(length=20), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["scenario_batch.id"],
            name=op.f("fk_chunk_piece_batch_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_chunk_piece_team_id")),
        sa.PrimaryKeyConstraint("batch_id", "chunk", "first_point", name=op.f("pk_chunk_piece")),
    )


def downgrade() -> None:
    op.drop_table("chunk_piece")
