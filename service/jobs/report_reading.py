"""A stored batch as one side of a report: the headline point of each item, and what prices it."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
from msgspec import Struct

from service.db import batches, reports
from service.db.engine import Connection, Row
from service.db.results import fetch_points
from service.jobs.actors import Actor
from service.jobs.batches import require_finished
from service.jobs.chunks import grid_of
from service.jobs.prices import BatchPrices, read_prices, require_pricing
from service.jobs.rate_keys import keys_of_rates
from service.jobs.result_queries import KINDS
from service.jobs.results import shown_value
from service.model.fields import Scenario
from service.reports.loss_report import PricedDays
from service.reports.price_causes import RateKey
from service.reports.priced_days import priced_days, unpriced
from service.reports.pricing import PricedWindow, Rate
from service.reports.report_sides import REPORT_COLUMNS, ReportedItem, ReportedPoint, ReportSide


class ReadBatch(Struct, frozen=True, kw_only=True):
    """What is read of a batch before its points: rows, and the pricing that is shown.

    `summaries` are the typed copies of the headline results, by item.
    """

    batch: Row[Any]
    items: list[Row[Any]]
    prices: BatchPrices | None
    summaries: dict[UUID, Row[Any]]

    @property
    def rate_ids(self) -> set[str]:
        """The rates that price any item."""
        windows = (
            [] if self.prices is None else [one.window for one in self.prices.by_item.values()]
        )
        return {line.rate_id for window in windows for line in window.lines}


class Rates(Struct, frozen=True, kw_only=True):
    """The rates that price either side, by id: when they are valid, and what they are for."""

    rates: Mapping[str, Rate]
    keys: Mapping[str, RateKey]


def read_batch(connection: Connection, actor: Actor, batch_id: UUID, pricing: int) -> ReadBatch:
    """An ended batch; raises `NotFoundError` and `ConflictError`."""
    batch = require_finished(connection, actor, batch_id)
    found = read_prices(connection, actor, [batch_id], sequence=pricing)
    require_pricing(found, batch_id, pricing)
    return ReadBatch(
        batch=batch,
        items=batches.list_items(connection, [batch_id]),
        prices=found.get(batch_id),
        summaries={row.item_id: row for row in reports.summaries_of(connection, batch_id)},
    )


def read_rates(connection: Connection, sides: Sequence[ReadBatch]) -> Rates:
    """The rates that price any of the sides."""
    needed = {UUID(rate_id) for side in sides for rate_id in side.rate_ids}
    rows = reports.rates_of(connection, needed)
    return Rates(
        rates={
            str(row.id): Rate(
                id=str(row.id),
                price=row.amount,
                valid_from=row.valid_from,
                valid_until=row.valid_until,
                cost_center=row.cost_center,
            )
            for row in rows
        },
        keys=keys_of_rates(connection, needed),
    )


def read_side(connection: Connection, read: ReadBatch, rates: Rates) -> ReportSide:
    """The items of the batch with their headline points."""
    points = _points(connection, read)
    currency = None if read.prices is None else read.prices.currency
    return ReportSide(
        items=[
            ReportedItem(
                custom_id=item.custom_id,
                name=item.name,
                profile=item.profile_slug,
                profile_revision=item.profile_revision,
                start_on=item.start_on,
                period_days=item.scenario["period_days"],
                seed=item.scenario["seed"],
                gpu_type=item.gpu_type,
                cost_center=item.cost_center,
                missing=found if isinstance(found, str) else None,
                found=None if isinstance(found, str) else found,
                window=_window(read, item),
                price_days=_price_days(read, item, rates),
            )
            for item, found in zip(read.items, points, strict=True)
        ],
        currency=currency,
        model_version=read.batch.model_version,
    )


def scenario_of(item: Row[Any], point: int) -> Scenario:
    """The whole scenario of a point of the batch that belongs to the item."""
    documents = (msgspec.json.encode(item.scenario), msgspec.json.encode(item.axes))
    return grid_of(*documents).point_scenario(point - item.first_point)


def _points(connection: Connection, read: ReadBatch) -> list[ReportedPoint | str]:
    """The headline point of each item, or why it has none."""
    headlines = [item.headline_point for item in read.items if item.headline_point is not None]
    wanted = np.array(headlines, dtype=np.int64)
    table = fetch_points(connection, read.batch.id, wanted, ("failure", *REPORT_COLUMNS))
    refused = batches.chunk_failures(connection, read.batch.id)
    found: list[ReportedPoint | str] = []
    row = 0
    for item in read.items:
        if item.headline_point is None:
            found.append("no_headline")
            continue
        failure = table["failure"][row].item()
        if failure == 0:
            found.append(_point(item.headline_point, table, row))
        elif failure > 0 or item.headline_point // read.batch.chunk_points in refused:
            found.append("failed")
        else:
            found.append("not_computed")
        row += 1
    return found


def _point(point: int, table: Mapping[str, Any], row: int) -> ReportedPoint:
    shown = {
        # The only input among them
        name: shown_value(name, table[name][row]) if name in KINDS else table[name][row].item()
        for name in REPORT_COLUMNS
    }
    return ReportedPoint(
        point=point,
        method=shown.pop("method"),
        is_extrapolated=bool(shown.pop("is_extrapolated")),
        values=shown,
    )


def _window(read: ReadBatch, item: Row[Any]) -> PricedWindow | None:
    price = None if read.prices is None else read.prices.by_item.get(item.id)
    return None if price is None else price.window


def _price_days(read: ReadBatch, item: Row[Any], rates: Rates) -> list[PricedDays]:
    window = _window(read, item)
    if window is None or read.prices is None or read.prices.currency is None:
        return unpriced(item.start_on, item.scenario["period_days"])
    own = [rates.rates[line.rate_id] for line in window.lines]
    return priced_days(own, item.start_on, window, read.prices.currency)
