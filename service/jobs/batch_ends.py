"""The end of a batch: its state, its headline summaries and the prices that it is shown with."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import uuid_utils.compat

from service.db import batches, chunk_pieces, pricings
from service.db.engine import Connection, Row
from service.db.results import fetch_points
from service.jobs.rates import rates_for
from service.reports.changes import nullable
from service.reports.pricing import Rate, price_days

SUMMARY_COLUMNS = (
    "num_gpus",
    "period_days",
    "ideal_step_ms",
    "step_mean_ms",
    "efficiency_fraction",
    "gpu_hours_available",
    "gpu_hours_lost",
    "gpu_hours_not_useful",
)
# Null where the batch's model did not compute it
SPREAD_COLUMNS = (
    "gpu_hours_lost_p10",
    "gpu_hours_lost_p50",
    "gpu_hours_lost_p90",
    "gpu_hours_lost_se",
)


def is_due(connection: Connection, batch_id: UUID, now: datetime) -> bool:
    """Whether `finish` would end the batch."""
    batch = batches.find_batch(connection, batch_id)
    if batch is None or batch.state not in batches.UNFINISHED:
        return False
    late = batch.deadline_at is not None and batch.deadline_at <= now
    return batch.state == "canceling" or batch.points_done >= batch.points_total or late


def finish(connection: Connection, batch_id: UUID, now: datetime) -> str | None:
    """End the batch if it is due: final state, headline summaries and the prices it is shown with.

    Due is a batch that is to be canceled, has all its points or is past its deadline. Returns the
    state that it got; None when it had ended or is not due.
    """
    batch = batches.lock_batch(connection, batch_id)
    if batch is None or batch.state not in batches.UNFINISHED:
        return None
    items = batches.list_items(connection, [batch_id])
    state = _final_state(batch, items, now)
    if state is None:
        return None
    if batch.points_done:
        pricings.insert_summaries(connection, _summaries(connection, batch, items))
    price_batch(connection, batch, items, currency=batch.currency, now=now, actor=batch.created_by)
    batches.set_state(
        connection,
        batch_id,
        state,
        expected=batches.UNFINISHED,
        ended_at=now,
        failure=_failure_of(connection, batch_id) if state == "failed" else None,
    )
    # Of chunks that were begun and will not be stored: no whole block of them could be shown.
    chunk_pieces.delete_pieces(connection, batch_id)
    return state


def price_batch(
    connection: Connection,
    batch: Row[Any],
    items: Iterable[Row[Any]],
    *,
    currency: str | None,
    now: datetime,
    actor: str,
) -> int:
    """Keep which rates, and how many days of each, price every item (decisions 15).

    Returns the number of the pricing; the caller holds the batch.
    """
    sequence = pricings.next_sequence(connection, batch.id)
    header = {
        "id": uuid_utils.compat.uuid7(),
        "team_id": batch.team_id,
        "created_by": actor,
        "batch_id": batch.id,
        "sequence": sequence,
        "currency": currency,
        "rates_as_of": now,
    }
    lines = []
    # Most items of a batch share a few rates.
    known: dict[tuple[str, str | None], list[Rate]] = {}
    for item in items:
        for rate_id, amount, days in _priced_days(connection, item, currency, known):
            lines.append(
                {
                    "id": uuid_utils.compat.uuid7(),
                    "team_id": batch.team_id,
                    "pricing_id": header["id"],
                    "item_id": item.id,
                    "rate_id": rate_id,
                    "amount": amount,
                    "num_days": days,
                }
            )
    pricings.insert_pricing(connection, header, lines)
    return sequence


def _priced_days(
    connection: Connection,
    item: Row[Any],
    currency: str | None,
    known: dict[tuple[str, str | None], list[Rate]],
) -> list[tuple[UUID | None, Decimal | None, int]]:
    period_days: int = item.scenario["period_days"]
    if currency is None or item.gpu_type is None:
        return [(None, None, period_days)]
    key = (item.gpu_type, item.cost_center)
    if key not in known:
        known[key] = rates_for(connection, item.team_id, item.gpu_type, currency, item.cost_center)
    window = price_days(known[key], item.start_on, period_days)
    lines: list[tuple[UUID | None, Decimal | None, int]] = [
        (UUID(line.rate_id), line.price, line.days) for line in window.lines
    ]
    if window.unpriced_days:
        lines.append((None, None, window.unpriced_days))
    return lines


def _final_state(batch: Row[Any], items: list[Row[Any]], now: datetime) -> str | None:
    if batch.state == "canceling":
        return "canceled"
    if batch.points_done >= batch.points_total:
        if all(item.points_failed == item.num_points for item in items):
            return "failed"
        return "partially_failed" if batch.points_failed else "succeeded"
    if batch.deadline_at is not None and batch.deadline_at <= now:
        return "expired"
    return None


def _failure_of(connection: Connection, batch_id: UUID) -> str | None:
    """What the chunks that could not be computed say; None when all points broke a rule."""
    reasons = batches.chunk_failures(connection, batch_id)
    return "; ".join(dict.fromkeys(reasons.values())) or None


def _summaries(
    connection: Connection, batch: Row[Any], items: list[Row[Any]]
) -> list[dict[str, Any]]:
    failed = batches.chunk_failures(connection, batch.id)
    written = batches.written_chunks(connection, batch.id) - set(failed)
    headlined = [
        item
        for item in items
        if item.headline_point is not None and item.headline_point // batch.chunk_points in written
    ]
    points = np.array([item.headline_point for item in headlined], dtype=np.int64)
    if not len(points):
        return []
    table = fetch_points(
        connection, batch.id, points, ("failure", *SUMMARY_COLUMNS, *SPREAD_COLUMNS)
    )
    return [
        {
            "id": uuid_utils.compat.uuid7(),
            "team_id": batch.team_id,
            "created_by": batch.created_by,
            "batch_id": batch.id,
            "item_id": item.id,
            "point": item.headline_point,
            "name": item.name,
            "profile_slug": item.profile_slug,
            "profile_revision": item.profile_revision,
            "start_on": item.start_on,
            "model_version": batch.model_version,
            **{name: table[name][row].item() for name in SUMMARY_COLUMNS},
            **{name: nullable(table[name][row].item()) for name in SPREAD_COLUMNS},
        }
        for row, item in enumerate(headlined)
        if table["failure"][row] == 0
    ]
