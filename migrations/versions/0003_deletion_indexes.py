"""Indexes of what refers to items: without them, deleting one item reads whole tables."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(op.f("ix_result_summary_item_id"), "result_summary", ["item_id"])
    op.create_index(op.f("ix_pricing_line_item_id"), "pricing_line", ["item_id"])


def downgrade() -> None:
    op.drop_index(op.f("ix_pricing_line_item_id"), table_name="pricing_line")
    op.drop_index(op.f("ix_result_summary_item_id"), table_name="result_summary")
