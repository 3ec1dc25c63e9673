"""Stored blocks of one batch taken over by an identical one."""

from uuid import UUID

from sqlalchemy import Connection, func, insert, literal, select

from service.db.tables import result_block, scenario_batch, utc_now


def copy_blocks(
    connection: Connection, *, source: UUID, target: UUID, team_id: UUID, first: int, stop: int
) -> int:
    """Copy the blocks [first, stop) of a batch that is not deleted; how many columns of blocks.

    The source is kept from being deleted until the transaction ends. 0 when it is gone.
    """
    kept = select(scenario_batch.c.id).where(
        scenario_batch.c.id == source, scenario_batch.c.deleted_at.is_(None)
    )
    if connection.dialect.name == "postgresql":
        kept = kept.with_for_update(read=True)
    if connection.scalar(kept) is None:
        return 0
    c = result_block.c
    copied = [column for column in c if column.name not in {"batch_id", "team_id", "created_at"}]
    rows = select(
        literal(target, c.batch_id.type),
        literal(team_id, c.team_id.type),
        literal(utc_now(), c.created_at.type),
        *copied,
    ).where(c.batch_id == source, c.block >= first, c.block < stop)
    names = ["batch_id", "team_id", "created_at", *(column.name for column in copied)]
    connection.execute(insert(result_block).from_select(names, rows))
    return (
        connection.scalar(
            select(func.count())
            .select_from(result_block)
            .where(c.batch_id == target, c.block >= first, c.block < stop)
        )
        or 0
    )
