"""The steps of running a batch: claim, hold, store a chunk, finish. Each is one transaction."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import uuid_utils.compat

from service.db import batches, pricings
from service.db.blocks import BLOCK_POINTS, write_blocks
from service.db.engine import Connection, Row
from service.db.results import fetch_points
from service.jobs.chunks import ComputedChunk, ItemSpan, num_chunks
from service.jobs.planning import CHUNK_POINTS
from service.jobs.rates import rates_for
from service.reports.pricing import price_days

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
BLOCKS_PER_CHUNK = CHUNK_POINTS // BLOCK_POINTS


@dataclass(kw_only=True)
class Run:
    """A batch that this runner holds; `chunks` are those not stored yet."""

    batch_id: UUID
    team_id: UUID
    num_points: int
    columns: tuple[str, ...]
    spans: list[ItemSpan]
    item_ids: list[UUID]
    chunks: set[int]
    canceling: bool

    def spans_of(self, chunk: int) -> list[ItemSpan]:
        """The items that have points in the chunk."""
        start = chunk * CHUNK_POINTS
        return [
            span
            for span in self.spans
            if span.first_point < start + CHUNK_POINTS
            and span.first_point + span.num_points > start
        ]


def claim(
    connection: Connection, *, runner: str, now: datetime, lease_until: datetime
) -> Run | None:
    """Take the oldest free batch, with what is still to be computed; None when there is none."""
    batch = batches.claim_batch(connection, runner=runner, now=now, lease_until=lease_until)
    if batch is None:
        return None
    items = batches.list_items(connection, [batch.id])
    return Run(
        batch_id=batch.id,
        team_id=batch.team_id,
        num_points=batch.points_total,
        columns=tuple(batch.columns),
        spans=[_span(item) for item in items],
        item_ids=[item.id for item in items],
        chunks=set(range(num_chunks(batch.points_total)))
        - batches.written_chunks(connection, batch.id),
        canceling=batch.state == "canceling",
    )


def hold(
    connection: Connection, run: Run, *, runner: str, lease_until: datetime | None
) -> str | None:
    """Renew the lease; returns the batch's state, None when another runner has it."""
    return batches.hold_batch(connection, run.batch_id, runner=runner, lease_until=lease_until)


def holders(connection: Connection) -> list[str]:
    """Names of the runners that hold a batch with a lease."""
    return batches.lease_holders(connection)


def release(connection: Connection, runner: str) -> None:
    """End all leases of a runner."""
    batches.end_leases(connection, runner)


def store_chunk(connection: Connection, run: Run, computed: ComputedChunk, now: datetime) -> None:
    """Write the chunk's blocks, its ledger row and the progress."""
    write_blocks(
        connection,
        run.team_id,
        run.batch_id,
        computed.chunk * BLOCKS_PER_CHUNK,
        computed.blocks,
    )
    batches.record_chunk(
        connection,
        team_id=run.team_id,
        batch_id=run.batch_id,
        chunk=computed.chunk,
        items=[
            (run.item_ids[position], points, failed)
            for position, points, failed in computed.progress
        ],
        now=now,
    )


def finish(
    connection: Connection, run: Run, *, runner: str, now: datetime, failure: str | None
) -> None:
    """End the batch: final state, headline summaries and the prices that it is shown with."""
    if batches.hold_batch(connection, run.batch_id, runner=runner, lease_until=None) is None:
        return
    batch = batches.get_batch(connection, run.team_id, run.batch_id)
    assert batch is not None  # noqa: S101 - held by the line above, in this transaction
    items = batches.list_items(connection, [run.batch_id])
    state = _final_state(batch, items, failure)
    if batch.points_done:
        pricings.insert_summaries(connection, _summaries(connection, batch, items))
    price_batch(connection, batch, items, currency=batch.currency, now=now, actor=batch.created_by)
    batches.set_state(
        connection,
        run.batch_id,
        state,
        expected=batches.UNFINISHED,
        ended_at=now,
        failure=failure,
        lease_until=None,
    )


def price_batch(
    connection: Connection,
    batch: Row[Any],
    items: Iterable[Row[Any]],
    *,
    currency: str | None,
    now: datetime,
    actor: str,
) -> None:
    """Keep which rates, and how many days of each, price every item (decisions 15)."""
    header = {
        "id": uuid_utils.compat.uuid7(),
        "team_id": batch.team_id,
        "created_by": actor,
        "batch_id": batch.id,
        "sequence": pricings.next_sequence(connection, batch.id),
        "currency": currency,
        "rates_as_of": now,
    }
    lines = []
    for item in items:
        for rate_id, amount, days in _priced_days(connection, item, currency):
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


def _priced_days(
    connection: Connection, item: Row[Any], currency: str | None
) -> list[tuple[UUID | None, Decimal | None, int]]:
    period_days: int = item.scenario["period_days"]
    if currency is None or item.gpu_type is None:
        return [(None, None, period_days)]
    rates = rates_for(connection, item.team_id, item.gpu_type, currency, item.cost_center)
    window = price_days(rates, item.start_on, period_days)
    lines: list[tuple[UUID | None, Decimal | None, int]] = [
        (UUID(line.rate_id), line.price, line.days) for line in window.lines
    ]
    if window.unpriced_days:
        lines.append((None, None, window.unpriced_days))
    return lines


def _span(item: Row[Any]) -> ItemSpan:
    return ItemSpan(
        position=item.position,
        scenario=msgspec.json.encode(item.scenario),
        axes=msgspec.json.encode(item.axes),
        first_point=item.first_point,
        num_points=item.num_points,
    )


def _final_state(batch: Row[Any], items: list[Row[Any]], failure: str | None) -> str:
    if failure is not None:
        return "failed"
    if batch.state == "canceling":
        return "canceled"
    if all(item.points_failed == item.num_points for item in items):
        return "failed"
    return "partially_failed" if batch.points_failed else "succeeded"


def _summaries(
    connection: Connection, batch: Row[Any], items: list[Row[Any]]
) -> list[dict[str, Any]]:
    written = batches.written_chunks(connection, batch.id)
    headlined = [
        item
        for item in items
        if item.headline_point is not None and item.headline_point // CHUNK_POINTS in written
    ]
    points = np.array([item.headline_point for item in headlined], dtype=np.int64)
    if not len(points):
        return []
    table = fetch_points(connection, batch.id, points, ("failure", *SUMMARY_COLUMNS))
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
        }
        for row, item in enumerate(headlined)
        if table["failure"][row] == 0
    ]
