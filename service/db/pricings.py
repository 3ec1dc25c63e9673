"""What a batch was priced with (rates and days an item), and the headline summaries."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, func, insert, select

from service.db.tables import batch_item, pricing, pricing_line, result_summary, scenario_batch


def insert_pricing(
    connection: Connection, header: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
) -> None:
    """Write one pricing of a batch with its lines."""
    connection.execute(insert(pricing).values(**header))
    if lines:
        connection.execute(insert(pricing_line), [dict(line) for line in lines])


def next_sequence(connection: Connection, batch_id: UUID) -> int:
    """The number that the next pricing of the batch gets; the first is 1.

    The caller holds the batch (`batches.lock_batch`, `batches.begin_change`): nobody else may take
    the same number.
    """
    newest = connection.scalar(
        select(func.max(pricing.c.sequence)).where(pricing.c.batch_id == batch_id)
    )
    return (newest or 0) + 1


def list_pricings(connection: Connection, batch_ids: Sequence[UUID]) -> list[Row[Any]]:
    """All pricings of the batches, oldest first."""
    return list(
        connection.execute(
            select(pricing)
            .where(pricing.c.batch_id.in_(batch_ids))
            .order_by(pricing.c.batch_id, pricing.c.sequence)
        )
    )


def list_lines(connection: Connection, pricing_ids: Sequence[UUID]) -> list[Row[Any]]:
    """Lines of the pricings, in the order of the days they stand for."""
    c = pricing_line.c
    return list(
        connection.execute(
            # Only what is read: of thousands of lines, each more id costs milliseconds.
            select(c.pricing_id, c.item_id, c.rate_id, c.amount, c.num_days)
            .where(pricing_line.c.pricing_id.in_(pricing_ids))
            .order_by(pricing_line.c.item_id, pricing_line.c.id)
        )
    )


def insert_summaries(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the typed copy of the headline points."""
    if rows:
        connection.execute(insert(result_summary), [dict(row) for row in rows])


def num_without_headline(
    connection: Connection,
    team_id: UUID,
    *,
    name: str,
    profile_slug: str | None = None,
    ended_by: datetime | None = None,
) -> int:
    """How many items of the name have no headline point, and so no place in a history.

    `ended_by`: only those of batches that had ended by then.
    """
    columns = batch_item.c
    query = (
        select(func.count())
        .select_from(batch_item)
        .join(scenario_batch, scenario_batch.c.id == columns.batch_id)
        .where(
            columns.team_id == team_id,
            columns.name == name,
            columns.headline_point.is_(None),
            scenario_batch.c.deleted_at.is_(None),
        )
    )
    if profile_slug is not None:
        query = query.where(columns.profile_slug == profile_slug)
    if ended_by is not None:
        query = query.where(scenario_batch.c.ended_at <= ended_by)
    return connection.scalar(query) or 0


def list_summaries(
    connection: Connection,
    team_id: UUID,
    *,
    name: str,
    profile_slug: str | None = None,
    limit: int,
) -> list[Row[Any]]:
    """Headline results of a named scenario over its batches, oldest first (the newest `limit`)."""
    columns = result_summary.c
    query = (
        select(
            result_summary,
            scenario_batch.c.name.label("batch_name"),
            scenario_batch.c.currency,
            scenario_batch.c.created_at.label("batch_created_at"),
            # As text: it may be larger than the integers of PostgreSQL.
            batch_item.c.scenario["seed"].as_string().label("seed"),
        )
        .join(scenario_batch, scenario_batch.c.id == columns.batch_id)
        .join(batch_item, batch_item.c.id == columns.item_id)
        .where(
            columns.team_id == team_id,
            columns.name == name,
            scenario_batch.c.deleted_at.is_(None),
        )
        .order_by(scenario_batch.c.created_at.desc(), columns.point.desc())
        .limit(limit)
    )
    if profile_slug is not None:
        query = query.where(columns.profile_slug == profile_slug)
    return list(connection.execute(query))[::-1]
