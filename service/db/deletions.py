"""Deleting batches: hidden at once by one small update, the rows taken away few at a time.

SQLite's freed pages stay in the file and are used by the next batches; nothing is vacuumed. It
would cost little (0.06 s for 58 MB, `auto_vacuum` and writing measured alike), but files of the
first version would have to be rewritten whole before it works at all, nightly batches of like
size take the same pages again, and pages moved from the end tear the blocks of a batch apart.
`trainard prune --compact` gives the pages back to the disk when somebody wants that.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Table, and_, delete, false, func, or_, select, text, update

from service.db.engine import Database
from service.db.tables import (
    batch_item,
    chunk_ledger,
    chunk_piece,
    pricing,
    pricing_line,
    publication,
    result_block,
    result_summary,
    scenario_batch,
)

# Column blocks a transaction: 2.5 MB when nothing can be compressed, 2-8 ms.
BLOCKS_PER_STEP = 32
# Rows of the small tables a transaction.
ROWS_PER_STEP = 200
# Batches that one sweep marks: the rest is for the next.
BATCHES_PER_MARK = 500


def mark_deleted(connection: Connection, batch_id: UUID, *, version: int, now: datetime) -> bool:
    """Hide the batch from every read; False when it is no longer at `version`."""
    c = scenario_batch.c
    marked = connection.execute(
        update(scenario_batch)
        .where(c.id == batch_id, c.version == version, c.deleted_at.is_(None))
        .values(_marked(now))
    )
    return marked.rowcount == 1


def mark_ended_before(
    connection: Connection,
    moment: datetime,
    *,
    states: Sequence[str],
    now: datetime,
    needed: Collection[UUID] = (),
) -> list[tuple[UUID, UUID]]:
    """Hide batches of all teams that ended before the moment; returns their teams and ids.

    None that is needed.
    """
    c = scenario_batch.c
    found = and_(_ended_before(moment, states), c.id.not_in(needed))
    oldest = select(c.id).where(found).order_by(c.ended_at).limit(BATCHES_PER_MARK)
    marked = connection.execute(
        update(scenario_batch)
        .where(c.id.in_(oldest.scalar_subquery()), found)
        .values(_marked(now))
        .returning(c.team_id, c.id)
    )
    return [(row.team_id, row.id) for row in marked]


def count_ended_before(
    connection: Connection,
    moment: datetime,
    *,
    states: Sequence[str],
    needed: Collection[UUID] = (),
) -> tuple[int, int, int]:
    """What `mark_ended_before` would hide in all: batches, their points; and how many it keeps."""
    c = scenario_batch.c
    old = _ended_before(moment, states)
    query = select(func.count(), func.coalesce(func.sum(c.points_total), 0))
    goes = query.where(old, c.id.not_in(needed))
    num_batches, num_points = connection.execute(goes).one()
    kept = connection.scalar(select(func.count()).where(old, c.id.in_(needed)))
    return num_batches, int(num_points), int(kept or 0)


def any_ended_before(connection: Connection, moment: datetime, *, states: Sequence[str]) -> bool:
    """Whether any batch ended before the moment, needed or not."""
    query = select(scenario_batch.c.id).where(_ended_before(moment, states)).limit(1)
    return connection.scalar(query) is not None


def is_marked(connection: Connection, batch_id: UUID) -> bool:
    """Whether rows of a deleted batch are left."""
    c = scenario_batch.c
    query = select(c.id).where(c.id == batch_id, c.deleted_at.is_not(None))
    return connection.scalar(query) is not None


def list_marked(connection: Connection, *, unsent_to: int | None = None) -> list[UUID]:
    """Deleted batches of which rows are left; with `unsent_to` those not given to that version."""
    c = scenario_batch.c
    unsent = or_(c.enqueued_version.is_(None), c.enqueued_version != unsent_to)
    return list(
        connection.scalars(
            select(c.id)
            .where(c.deleted_at.is_not(None), unsent if unsent_to is not None else ~false())
            .order_by(c.deleted_at, c.id)
        )
    )


def mark_sent(connection: Connection, batch_ids: Sequence[UUID], version: int) -> None:
    """Note the version that the deletions were given to."""
    connection.execute(
        update(scenario_batch)
        .where(scenario_batch.c.id.in_(batch_ids), scenario_batch.c.deleted_at.is_not(None))
        .values(enqueued_version=version)
    )


def note_failure(connection: Connection, batch_id: UUID, reason: str) -> None:
    """Keep why rows of a deleted batch are left; it stays hidden."""
    connection.execute(
        update(scenario_batch)
        .where(scenario_batch.c.id == batch_id, scenario_batch.c.deleted_at.is_not(None))
        .values(failure=reason)
    )


def stored_blocks(connection: Connection, batch_id: UUID) -> list[int]:
    """Numbers of the blocks that are left."""
    c = result_block.c
    query = select(c.block).where(c.batch_id == batch_id).distinct().order_by(c.block)
    return list(connection.scalars(query))


def delete_from_block(connection: Connection, batch_id: UUID, block: int) -> bool:
    """Delete a few columns of one block; whether columns are left."""
    c = result_block.c
    mine = and_(c.batch_id == batch_id, c.block == block)
    names = list(connection.scalars(select(c.column).where(mine).limit(BLOCKS_PER_STEP + 1)))
    chosen = names[:BLOCKS_PER_STEP]
    if chosen:
        connection.execute(delete(result_block).where(mine, c.column.in_(chosen)))
    return len(names) > BLOCKS_PER_STEP


def delete_rows(connection: Connection, batch_id: UUID) -> bool:
    """Delete some of the batch's small rows, the batch itself last; whether rows are left.

    Blocks must be gone: deleting the batch would take them along in one transaction.
    """
    for table, key in (
        (result_summary, "id"),
        (pricing_line, "id"),
        (pricing, "id"),
        (publication, "id"),
        (chunk_piece, "first_point"),
        (chunk_ledger, "chunk"),
        (batch_item, "id"),
    ):
        mine = _of_batch(table, batch_id)
        keys = list(connection.scalars(select(table.c[key]).where(mine).limit(ROWS_PER_STEP)))
        if keys:
            connection.execute(delete(table).where(mine, table.c[key].in_(keys)))
            return True
    c = scenario_batch.c
    connection.execute(delete(scenario_batch).where(c.id == batch_id, c.deleted_at.is_not(None)))
    return False


def compact(database: Database) -> None:
    """Give SQLite's freed pages back to the disk; writers wait, and so does this for them."""
    if database.is_sqlite:
        connection = database.engine.raw_connection()
        try:
            connection.cursor().execute("VACUUM")
        finally:
            connection.close()


def free_bytes(connection: Connection) -> int:
    """Bytes of freed pages in the embedded file; 0 on PostgreSQL, which cleans up by itself."""
    if connection.dialect.name != "sqlite":
        return 0
    pages = connection.scalar(text("PRAGMA freelist_count")) or 0
    return int(pages) * int(connection.scalar(text("PRAGMA page_size")) or 0)


def _marked(now: datetime) -> dict[str, Any]:
    # The column held the version that computed the batch: from now on it is that of the deletion.
    return {
        "deleted_at": now,
        "enqueued_version": None,
        "version": scenario_batch.c.version + 1,
    }


def _ended_before(moment: datetime, states: Sequence[str]) -> Any:
    c = scenario_batch.c
    return and_(c.state.in_(states), c.ended_at < moment, c.deleted_at.is_(None))


def _of_batch(table: Table, batch_id: UUID) -> Any:
    if table is pricing_line:
        mine = select(pricing.c.id).where(pricing.c.batch_id == batch_id)
        return pricing_line.c.pricing_id.in_(mine)
    return table.c.batch_id == batch_id
