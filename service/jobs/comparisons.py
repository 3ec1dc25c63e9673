"""Compare two batches: past, new, difference, relative."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta, Struct, structs

from service.db import batches
from service.db.engine import Connection, Row
from service.errors import FieldFault, InvalidError, MalformedError
from service.jobs.actors import Actor
from service.jobs.batch_documents import Notice
from service.jobs.batches import require_finished
from service.jobs.comparison_causes import MOST_ROWS, batch_of, with_causes
from service.jobs.comparison_sides import axis_paths_of, grids_of, read_side
from service.jobs.cost_access import require_costs
from service.jobs.documents import MAX_NUMBER
from service.jobs.page_tokens import make_token, read_token
from service.jobs.prices import read_prices, require_pricing
from service.model.grid import Grid
from service.model.results import ATTRIBUTION_COLUMNS, COLUMNS
from service.reports.compare import COST, ComparisonRow, Cursor, Order, page, parse_order
from service.reports.join import DuplicateKeyError, Joined, join
from service.reports.sampling import ERROR_COLUMNS, ERROR_OF
from service.reports.totals import Summary, summary

# Standard errors are shown beside what they are of, not compared.
NUMERIC = tuple(
    column.name
    for column in COLUMNS
    if column.kind == "float64" and column.name not in ERROR_COLUMNS
)
# Loss, what it is measured against, where it goes, and what a pipeline is about; more by
# `columns=`.
COMPARED = (
    "gpu_hours_lost",
    "gpu_hours_available",
    "gpu_hours_not_useful",
    "gpu_hours_lost_p10",
    "gpu_hours_lost_p90",
    "ideal_step_ms",
    "step_mean_ms",
    "efficiency_fraction",
    "useful_compute_fraction",
    "pipeline_makespan_ms",
    "bubble_fraction",
    "busy_gpus_mean",
    *ATTRIBUTION_COLUMNS,
)


class ComparedBatches(Struct, frozen=True, kw_only=True):
    """Which batches are compared, in which columns and order, and how they are priced."""

    baseline: Annotated[UUID, Meta(description="Batch that is compared with: the past.")]
    candidate: Annotated[UUID, Meta(description="Batch that is looked at: the new.")]
    order_by: Annotated[
        str,
        Meta(
            max_length=100,
            description="`past`, `new`, `difference`, `magnitude` (of the difference, whatever its "
            "sign) or `relative` of a column, `-` for falling; by default the order of the "
            "baseline. `cost_of_loss` needs the scope costs:read.",
            examples=["-magnitude.gpu_hours_lost"],
        ),
    ] = ""
    columns: Annotated[
        str, Meta(max_length=1000, description="More output columns to compare, by comma.")
    ] = ""
    baseline_pricing: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_NUMBER,
            description="Which pricing of the baseline; 1 is that of when it ended, higher numbers "
            "need the scope costs:read.",
        ),
    ] = 1
    candidate_pricing: Annotated[
        int, Meta(ge=1, le=MAX_NUMBER, description="Which pricing of the candidate, likewise.")
    ] = 1


class ComparisonQuery(ComparedBatches, frozen=True, kw_only=True):
    """Which batches, and the page of their comparison.

    Either may be named by the run of a schedule that it belongs to.
    """

    causes: Annotated[
        bool,
        Meta(
            description="Also why each row moved: which input, which model, which rate. It may "
            f"evaluate scenarios, so pages have at most {MOST_ROWS} rows then."
        ),
    ] = False
    page_size: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_NUMBER,
            description="50 by default; more than the limit becomes the limit.",
        ),
    ] = 50
    page_token: (
        Annotated[str, Meta(max_length=4000, description="`next_page_token` of the page before.")]
        | None
    ) = None


class ComparisonOut(Struct, frozen=True, kw_only=True):
    """Totals over headline points, and a page of joined points."""

    baseline: UUID
    candidate: UUID
    summary: Summary
    items: list[ComparisonRow]
    matched: int
    only_in_baseline: int
    only_in_candidate: int
    warnings: list[Notice]
    next_page_token: str | None


def compare(
    connection: Connection, actor: Actor, query: ComparisonQuery, *, page_size: int
) -> ComparisonOut:
    """Compare two batches.

    Raises `NotFoundError`, `ConflictError` (a batch that has not ended, a run without one),
    `MalformedError` (order, columns, token), `ForbiddenError` (an order or a pricing that needs
    money to be seen) and `InvalidError` for a key met twice on one side.
    """
    bound = msgspec.to_builtins(query)
    del bound["page_token"], bound["page_size"]
    cursor = read_token(query.page_token, bound, Cursor)
    query = structs.replace(
        query,
        baseline=batch_of(connection, actor, query.baseline),
        candidate=batch_of(connection, actor, query.candidate),
    )
    size = min(page_size, MOST_ROWS) if query.causes else page_size
    extra = named_columns(query.columns)
    order = order_of(actor, query.order_by, (*COMPARED, *extra))
    joined, stored = join_items(connection, actor, query, extra)
    withhold = not actor.sees_costs
    rows = page(joined, size=size, order=order, after=cursor, withhold=withhold)
    items = rows.items
    if query.causes:
        compared = (query.baseline, query.candidate)
        items = with_causes(connection, joined, items, compared)
    return ComparisonOut(
        baseline=query.baseline,
        candidate=query.candidate,
        summary=summary(joined, withhold=withhold),
        items=items,
        matched=joined.num_rows,
        only_in_baseline=joined.only_in_baseline,
        only_in_candidate=joined.only_in_candidate,
        warnings=_window_warnings(stored),
        next_page_token=make_token(bound, rows.next_cursor) if rows.next_cursor else None,
    )


def join_batches(
    connection: Connection,
    actor: Actor,
    query: ComparedBatches,
    extra_columns: tuple[str, ...] = (),
) -> Joined:
    """The points that both batches have, as columns; without prices if money is withheld."""
    return join_items(connection, actor, query, extra_columns)[0]


def join_items(
    connection: Connection,
    actor: Actor,
    query: ComparedBatches,
    extra_columns: tuple[str, ...] = (),
) -> tuple[Joined, list[list[Row[Any]]]]:
    """The same, with the heads of the items of both batches."""
    rows = [
        require_finished(connection, actor, batch_id)
        for batch_id in (query.baseline, query.candidate)
    ]
    items = [batches.list_item_heads(connection, row.id) for row in rows]
    numbers = (query.baseline_pricing, query.candidate_pricing)
    prices = []
    for row, number in zip(rows, numbers, strict=True):
        found = read_prices(connection, actor, [row.id], sequence=number)
        require_pricing(found, row.id, number)
        prices.append(found.get(row.id))
    grids = _grids_of(connection, rows, items)
    paths = tuple(dict.fromkeys(path for side in grids for path in axis_paths_of(side)))
    compared = (*COMPARED, *extra_columns)
    errors = (ERROR_OF[name] for name in compared if name in ERROR_OF)
    columns = (*compared, *errors)
    sides = [
        read_side(
            connection,
            row,
            side,
            price,
            grids=grids_of_side,
            paths=paths,
            columns=columns,
        )
        for row, side, price, grids_of_side in zip(rows, items, prices, grids, strict=True)
    ]
    try:
        return join(sides[0], sides[1]), items
    except DuplicateKeyError as error:
        fault = FieldFault(pointer="", code="duplicate_key", detail=str(error))
        raise InvalidError(str(error), problem="duplicate-key", errors=[fault]) from error


def _grids_of(
    connection: Connection, rows: Sequence[Row[Any]], sides: Sequence[Sequence[Row[Any]]]
) -> list[list[Grid]]:
    """The grids of both sides; empty where none of the items has an axis.

    They are laid out again from whole scenarios only where an axis is to be read: that takes longer
    than all else.
    """
    if not any(item.num_axes for side in sides for item in side):
        return [[] for _ in rows]
    return [grids_of(batches.list_items(connection, [row.id])) for row in rows]


def _window_warnings(sides: Sequence[Sequence[Row[Any]]]) -> list[Notice]:
    """Scenarios whose windows differ in length: part of their difference is only that."""
    lengths: list[dict[tuple[str, str | None], int]] = [
        {(item.name, item.profile_slug): item.period_days for item in items} for items in sides
    ]
    past, new = lengths
    return [
        Notice(
            pointer="",
            code="window_changed",
            detail=f"{name!r}: period_days is {past[name, slug]} in the baseline and "
            f"{new[name, slug]} in the candidate, so their losses are of windows of unlike length",
        )
        for name, slug in past
        if (name, slug) in new and past[name, slug] != new[name, slug]
    ]


def named_columns(text: str) -> tuple[str, ...]:
    """The columns named beside `COMPARED`; raises `MalformedError` for one that is none."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in NUMERIC]
    if unknown:
        raise MalformedError(f"columns names {unknown[0]!r}, which is none of {', '.join(NUMERIC)}")
    return tuple(name for name in names if name not in COMPARED)


def order_of(actor: Actor, text: str, columns: tuple[str, ...]) -> Order | None:
    """The order that the text asks for.

    Raises `MalformedError` for one that is none, and `ForbiddenError` for one by cost when the
    actor may not see money: the order alone would tell.
    """
    if not text:
        return None
    try:
        order = parse_order(text, columns, with_cost=True)
    except ValueError as error:
        raise MalformedError(f"order_by: {error}") from error
    if order.column == COST:
        require_costs(actor, "to sort by cost_of_loss")
    return order
