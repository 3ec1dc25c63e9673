"""The spread of headline losses, and chunks of a size that suits the cost of their points."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from alembic import op

from service.db.types import UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

SPREAD = (
    "gpu_hours_lost_p10",
    "gpu_hours_lost_p50",
    "gpu_hours_lost_p90",
    "gpu_hours_lost_se",
)
# Before this revision all chunks had so many points.
CHUNK_POINTS = 50_000

_batch = sa.table(
    "scenario_batch",
    sa.column("id", sa.Uuid()),
    sa.column("state", sa.String()),
    sa.column("chunk_points", sa.Integer()),
)
_ledger = sa.table(
    "chunk_ledger",
    sa.column("team_id", sa.Uuid()),
    sa.column("created_at", UtcDateTime()),
    sa.column("batch_id", sa.Uuid()),
    sa.column("chunk", sa.Integer()),
    sa.column("num_points", sa.Integer()),
    sa.column("points_failed", sa.Integer()),
    sa.column("worker", sa.String()),
    sa.column("failure", sa.String()),
)


def upgrade() -> None:
    # Null where the model of the batch did not compute it.
    for name in SPREAD:
        op.add_column("result_summary", sa.Column(name, sa.Float(53)))
    op.add_column(
        "scenario_batch",
        sa.Column("chunk_points", sa.Integer(), nullable=False, server_default=str(CHUNK_POINTS)),
    )


def downgrade() -> None:
    _count_in_large_chunks()
    op.drop_column("scenario_batch", "chunk_points")
    for name in SPREAD:
        op.drop_column("result_summary", name)


def _count_in_large_chunks() -> None:
    """Rewrite the ledgers of ended batches with smaller chunks; an unfinished one is refused.

    The older version would take a large chunk for done of which a part is missing.
    """
    connection = op.get_bind()
    small = connection.execute(
        sa.select(_batch.c.id, _batch.c.state, _batch.c.chunk_points).where(
            _batch.c.chunk_points != CHUNK_POINTS
        )
    ).all()
    unfinished = [batch.id for batch in small if batch.state in {"queued", "running", "canceling"}]
    if unfinished:
        raise ValueError(
            f"{len(unfinished)} unfinished batches are cut into smaller chunks than the older "
            f"version knows, such as {unfinished[0]}: let them end, or cancel them, first"
        )
    for batch in small:
        own = _ledger.c.batch_id == batch.id
        rows = connection.execute(sa.select(_ledger).where(own).order_by(_ledger.c.chunk)).all()
        connection.execute(sa.delete(_ledger).where(own))
        large = _merged(rows, batch.chunk_points)
        if large:
            connection.execute(sa.insert(_ledger), large)


def _merged(rows: Iterable[Any], chunk_points: int) -> list[dict[str, Any]]:
    """Ledger rows of large chunks: points are added, the rest is that of the first part."""
    large: dict[int, dict[str, Any]] = {}
    for row in rows:
        chunk = row.chunk * chunk_points // CHUNK_POINTS
        if chunk not in large:
            large[chunk] = {**row._mapping, "chunk": chunk}  # noqa: SLF001 - a row's public view
            continue
        large[chunk]["num_points"] += row.num_points
        large[chunk]["points_failed"] += row.points_failed
        large[chunk]["failure"] = large[chunk]["failure"] or row.failure
    return list(large.values())
