"""Sessions of the pages: who has signed in with a key.

Going down signs everybody out.
"""

import sqlalchemy as sa
from alembic import op

from service.db.types import UtcDateTime

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "web_session",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("api_key_id", sa.Uuid(), nullable=False),
        sa.Column("token_digest", sa.String(length=64), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["api_key_id"], ["api_key.id"], name=op.f("fk_web_session_api_key_id")
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_web_session_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_web_session")),
        sa.UniqueConstraint("token_digest", name=op.f("uq_web_session_token_digest")),
    )
    op.create_index("ix_web_session_api_key_id", "web_session", ["api_key_id", "id"], unique=False)
    op.create_index("ix_web_session_expires_at", "web_session", ["expires_at"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_web_session_expires_at", table_name="web_session")
    op.drop_index("ix_web_session_api_key_id", table_name="web_session")
    op.drop_table("web_session")
