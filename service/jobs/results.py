"""Use cases of stored results: list with filters and order, read one."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.db import batches
from service.db.engine import Connection, Row
from service.db.results import BatchRef, Cursor, Derived, Filter, Order, fetch_batches, scan
from service.errors import MalformedError, NotFoundError
from service.jobs.actors import Actor
from service.jobs.batch_documents import WITH_RESULTS
from service.jobs.batches import require_finished
from service.jobs.chunks import grid_of
from service.jobs.cost_access import require_costs
from service.jobs.output_columns import ResultColumns
from service.jobs.page_tokens import make_token, read_token
from service.jobs.prices import (
    FIRST_PRICING,
    BatchPrices,
    ItemPrice,
    read_prices,
    require_pricing,
)
from service.jobs.result_documents import (
    Provenance,
    RateDays,
    ResultDetail,
    ResultOut,
    ResultPage,
)
from service.jobs.result_queries import (
    COST_COLUMN,
    KINDS,
    LABELS,
    ResultFilters,
    ResultsQuery,
    check_columns,
    read_conditions,
    read_order,
)
from service.jobs.stored_inputs import defaults_beside
from service.model.results import COLUMNS
from service.reports.money import CostStatus, minor_digits
from service.reports.pricing import Cost, PricedWindow, priced

OUTPUTS = tuple(column.name for column in COLUMNS)
SIZE = "num_gpus"
MAX_BATCHES = 10_000


class Selection(Struct, frozen=True, kw_only=True):
    """The batches, items and prices that a query is about, newest batch first.

    `withheld`: the reader may not see money, and `prices` holds none.
    """

    refs: list[BatchRef]
    batches: dict[UUID, Row[Any]]
    items: dict[UUID, list[Row[Any]]]
    prices: dict[UUID, BatchPrices]
    withheld: bool
    filters: list[Filter]
    order: list[Order]

    def item_price(self, item: Row[Any]) -> ItemPrice | None:
        """How the item is priced; None for a batch that ended without a pricing."""
        prices = self.prices.get(item.batch_id)
        return None if prices is None else prices.by_item.get(item.id)


def list_page(connection: Connection, actor: Actor, query: ResultsQuery) -> ResultPage:
    """A page of computed points: what sorts after the token when the page is asked for.

    A batch that ends between two pages is shown where it sorts, if that is still to come, and one
    that is deleted is left out; the rows of all other batches are shown once.
    Raises `MalformedError` for a faulty filter, `NotFoundError` for an unknown batch,
    `ConflictError` for one that has not ended, and `ForbiddenError` for what needs money to be
    seen.
    """
    size = query.page_size
    bound = msgspec.to_builtins(query)
    del bound["page_token"], bound["page_size"]
    cursor = read_token(query.page_token, bound, Cursor)
    selection = select(connection, actor, query)
    found = scan(
        connection,
        selection.refs,
        selection.filters,
        selection.order,
        after=cursor,
        limit=size + 1,
    )
    shown = found[:size]
    places = [(ref.batch_id, ref.point) for ref in shown]
    more = len(found) > size
    return ResultPage(
        items=rows_of(connection, selection, places),
        next_page_token=make_token(bound, shown[-1].cursor) if more else None,
    )


def read_one(connection: Connection, actor: Actor, result_id: str) -> ResultDetail:
    """One result by `{batch_id}.{point}`, with what is needed to compute it again."""
    head, _, tail = result_id.partition(".")
    try:
        batch_id, point = UUID(head), int(tail) if tail.isascii() and tail.isdecimal() else -1
    except ValueError as error:
        raise NotFoundError(f"there is no result {result_id!r}") from error
    batch = require_finished(connection, actor, batch_id)
    if not 0 <= point < batch.points_total:
        raise NotFoundError(f"there is no result {result_id!r}")
    selection = _selection(connection, actor, [batch], [], [])
    rows = rows_of(connection, selection, [(batch_id, point)])
    if not rows:
        raise NotFoundError(
            f"point {point} of batch {batch_id} was not computed; see the batch's errors"
        )
    item = _item_at(selection.items[batch_id], point)
    return ResultDetail(
        result=rows[0], provenance=_provenance(selection, batch, item, point - item.first_point)
    )


def select(connection: Connection, actor: Actor, query: ResultFilters) -> Selection:
    """Resolve the filters to batches, items and stored columns; raises as `list_page` does."""
    conditions, order = read_conditions(query), read_order(query)
    names = {condition.column for condition in conditions} | {part.column for part in order}
    if COST_COLUMN in names:
        require_costs(actor, "to sort or filter by cost_of_loss")
    if query.currency is not None:
        require_costs(actor, "to choose batches by the currency of their prices")
    chosen = _batches(connection, actor, query)
    check_columns(names, {name for batch in chosen for name in batch.columns}, query.currency)
    return _selection(
        connection,
        actor,
        chosen,
        [
            Filter(
                column=condition.column,
                operator=condition.operator,
                value=_stored_value(condition.column, condition.value),
            )
            for condition in conditions
        ],
        [Order(column=part.column, descending=part.descending) for part in order],
        query,
    )


def rows_of(
    connection: Connection, selection: Selection, places: Sequence[tuple[UUID, int]]
) -> list[ResultOut]:
    """The results at (batch, point), in the order given; failed points are left out."""
    by_batch: dict[UUID, list[int]] = {}
    for batch_id, point in places:
        by_batch.setdefault(batch_id, []).append(point)
    points = {batch_id: np.array(wanted) for batch_id, wanted in by_batch.items()}
    tables = fetch_batches(connection, points, ("failure", SIZE, *OUTPUTS))
    found: dict[tuple[UUID, int], ResultOut] = {}
    for batch_id, table in tables.items():
        for row, point in enumerate(by_batch[batch_id]):
            if table["failure"][row] == 0:
                found[batch_id, point] = _row(selection, batch_id, point, table, row)
    return [found[place] for place in places if place in found]


def _row(
    selection: Selection,
    batch_id: UUID,
    point: int,
    table: dict[str, NDArray[Any]],
    row: int,
) -> ResultOut:
    item = _item_at(selection.items[batch_id], point)
    price = selection.item_price(item)
    window = price.window if price else None
    cost = _cost(selection, price, float(table["gpu_hours_lost"][row]))
    given_back = float(table["gpu_hours_given_back"][row])
    return ResultOut(
        id=f"{batch_id}.{point}",
        batch_id=batch_id,
        batch_name=selection.batches[batch_id].name,
        custom_id=item.custom_id,
        name=item.name,
        point=point,
        profile=_profile(item),
        start_on=item.start_on,
        model_version=selection.batches[batch_id].model_version,
        seed=item.scenario["seed"],
        num_gpus=int(table[SIZE][row]),
        inputs=grid_of(*_documents(item)).inputs_at(point - item.first_point),
        result=ResultColumns(**{name: shown_value(name, table[name][row]) for name in OUTPUTS}),
        cost_of_loss=cost.cost,
        money_given_back=(
            None if np.isnan(given_back) else _cost(selection, price, given_back).cost
        ),
        cost_status=cost.cost_status,
        unpriced_days=_unpriced_days(selection, item, window),
        rates=[
            RateDays(id=UUID(line.rate_id), days=line.days)
            for line in (window.lines if window else ())
        ],
    )


def _cost(selection: Selection, price: ItemPrice | None, gpu_hours: float) -> Cost:
    if selection.withheld:
        return Cost(cost=None, cost_status=CostStatus.WITHHELD)
    return priced(gpu_hours, price.window if price else None, price.currency if price else None)


def _unpriced_days(selection: Selection, item: Row[Any], window: PricedWindow | None) -> int | None:
    if selection.withheld:
        return None
    period_days: int = item.scenario["period_days"]
    return window.unpriced_days if window else period_days


def shown_value(name: str, value: Any) -> Any:
    """A stored value as it is answered: NaN is null, an enum code is its label.

    Whole numbers and switches that can be null are stored as floats.
    """
    column = KINDS[name]
    plain = value.item()
    if column.kind == "enum":
        return column.labels[plain] if plain >= 0 else None
    if isinstance(plain, float) and not np.isfinite(plain):
        return None
    made = {"int64": int, "bool": bool}.get(column.kind)
    return plain if made is None else made(plain)


def _stored_value(
    column: str,
    value: float | bool | str,  # noqa: FBT001 - is_null takes true or false
) -> float | bool:
    if isinstance(value, str):
        return float(LABELS[column].index(value))
    return value


def _batches(connection: Connection, actor: Actor, query: ResultFilters) -> list[Row[Any]]:
    if query.batch is not None:
        batch = require_finished(connection, actor, query.batch)
        return [batch]
    found = batches.list_batches(
        connection,
        actor.team_id,
        limit=MAX_BATCHES + 1,
        states=WITH_RESULTS,
        created_after=query.created_after,
        created_before=query.created_before,
    )
    if len(found) > MAX_BATCHES:
        raise MalformedError(
            f"more than {MAX_BATCHES} batches match: narrow them with created_after"
        )
    return found


def _selection(
    connection: Connection,
    actor: Actor,
    chosen: list[Row[Any]],
    filters: list[Filter],
    order: list[Order],
    query: ResultFilters | None = None,
) -> Selection:
    ids = [batch.id for batch in chosen]
    items: dict[UUID, list[Row[Any]]] = {batch_id: [] for batch_id in ids}
    for item in batches.list_items(connection, ids) if ids else []:
        items[item.batch_id].append(item)
    sequence = FIRST_PRICING if query is None else query.pricing
    prices = read_prices(connection, actor, ids, sequence=sequence)
    if query is not None and query.batch is not None:
        require_pricing(prices, query.batch, sequence)
    if query is not None and query.currency is not None:
        priced_in = {batch for batch, found in prices.items() if found.currency == query.currency}
        chosen = [batch for batch in chosen if batch.id in priced_in]
    selection = Selection(
        refs=[],
        batches={batch.id: batch for batch in chosen},
        items=items,
        prices=prices,
        withheld=not actor.sees_costs,
        filters=filters,
        order=order,
    )
    for batch in chosen:
        wanted = [
            item.position for item in items[batch.id] if query is None or _matches(item, query)
        ]
        if wanted:
            whole = len(wanted) == len(items[batch.id])
            selection.refs.append(
                BatchRef(
                    batch_id=batch.id,
                    created_at=batch.created_at,
                    items=None if whole else tuple(wanted),
                    constants=defaults_beside(batch.columns),
                    derived={
                        COST_COLUMN: Derived(
                            source="gpu_hours_lost",
                            factors=_factors(selection, items[batch.id]),
                            digits=_digits(prices.get(batch.id)),
                        )
                    },
                )
            )
    return selection


def _factors(selection: Selection, items: list[Row[Any]]) -> NDArray[np.float64]:
    """Mean price by item position, as a stand-in to sort and filter by; NaN without a price."""
    prices = [selection.item_price(item) for item in items]
    exact = [None if price is None else price.price for price in prices]
    return np.array([np.nan if price is None else float(price) for price in exact])


def _digits(prices: BatchPrices | None) -> int | None:
    """Decimals of the amounts shown: a filter by cost is about what the reader sees."""
    return minor_digits(prices.currency) if prices and prices.currency else None


def _matches(item: Row[Any], query: ResultFilters) -> bool:
    if query.name is not None and item.name != query.name:
        return False
    return query.profile is None or query.profile in {item.profile_slug, _profile(item)}


def _item_at(items: Sequence[Row[Any]], point: int) -> Row[Any]:
    low, high = 0, len(items) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if items[middle].first_point <= point:
            low = middle
        else:
            high = middle - 1
    return items[low]


def _profile(item: Row[Any]) -> str | None:
    return None if item.profile_slug is None else f"{item.profile_slug}@{item.profile_revision}"


def _documents(item: Row[Any]) -> tuple[bytes, bytes]:
    return msgspec.json.encode(item.scenario), msgspec.json.encode(item.axes)


def _provenance(selection: Selection, batch: Row[Any], item: Row[Any], point: int) -> Provenance:
    scenario = msgspec.to_builtins(grid_of(*_documents(item)).point_scenario(point))
    prices = selection.prices.get(batch.id)
    return Provenance(
        scenario=scenario,
        seed=scenario["seed"],
        model_version=batch.model_version,
        item_input_digest=item.input_digest,
        profile_revision_id=item.profile_revision_id,
        gpu_type=item.gpu_type,
        cost_center=item.cost_center,
        currency=batch.currency,
        rates_as_of=prices.rates_as_of if prices else None,
        pricing=prices.sequence if prices else 0,
        reproduce={"scenario": scenario},
    )
