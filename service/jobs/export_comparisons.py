"""A comparison of two batches as columns, chunk by chunk.

The joined columns of both sides are in memory as for every comparison; what is written from them
is not.
"""

from service.db.engine import Connection
from service.jobs.actors import Actor
from service.jobs.batches import require_finished
from service.jobs.comparisons import (
    COMPARED,
    ComparedBatches,
    join_batches,
    named_columns,
    order_of,
)
from service.jobs.export_documents import ExportedBatch
from service.jobs.export_extracts import CHUNK_ROWS, Extract, exported_batch
from service.jobs.prices import read_prices, require_pricing
from service.reports.export_comparison import comparison_chunks, comparison_fields


def check_comparison(
    connection: Connection, actor: Actor, query: ComparedBatches
) -> list[ExportedBatch]:
    """The two batches, if they can be compared as asked; reads none of their results.

    Raises `NotFoundError`, `ConflictError` (a batch that has not ended), `MalformedError` (order,
    columns) and `ForbiddenError` (an order or a pricing that needs money to be seen).
    """
    order_of(actor, query.order_by, (*COMPARED, *named_columns(query.columns)))
    batches = []
    for batch_id, sequence in (
        (query.baseline, query.baseline_pricing),
        (query.candidate, query.candidate_pricing),
    ):
        batch = require_finished(connection, actor, batch_id)
        prices = read_prices(connection, actor, [batch_id], sequence=sequence)
        require_pricing(prices, batch_id, sequence)
        batches.append(exported_batch(batch, prices.get(batch_id)))
    return batches


def extract_comparison(connection: Connection, actor: Actor, query: ComparedBatches) -> Extract:
    """The rows of a comparison.

    Raises what `check_comparison` raises, and `InvalidError` for a key met twice on one side; all
    before the first chunk.
    """
    batches = check_comparison(connection, actor, query)
    more = named_columns(query.columns)
    joined = join_batches(connection, actor, query, more)
    order = order_of(actor, query.order_by, (*COMPARED, *more))
    return Extract(
        fields=comparison_fields(joined),
        chunks=comparison_chunks(
            joined, order, chunk_rows=CHUNK_ROWS, withhold=not actor.sees_costs
        ),
        batches=batches,
    )
