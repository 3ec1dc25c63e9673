"""Which stored results a new batch may take over: those of equal inputs (decisions 4 and 8).

The input digest is over the custom ids, the normalised scenarios and the axes of all items, in
their order: over everything that decides a number. Names, metadata, currency, pricing keys and
the first day of the window decide no stored number (money is priced at the end of each batch), so
batches that differ in them share results.
"""

from collections.abc import Sequence
from uuid import UUID

from service.db.batch_reuse import Inputs, computed_batches, item_shapes
from service.db.engine import Connection

# Of batches with equal inputs the newest fits, unless a release stored other columns since.
CANDIDATES = 20


def find_reusable(
    connection: Connection,
    team_id: UUID,
    inputs: Inputs,
    *,
    columns: Sequence[str],
    items: Sequence[tuple[str, int]],
) -> UUID | None:
    """The newest batch whose blocks are those of the new one, None when it must be computed.

    `columns` are the stored input columns, `items` the input digest and number of points of each
    item: with equal ones, every block holds the same rows and columns.
    """
    for batch in computed_batches(connection, team_id, inputs, limit=CANDIDATES):
        same_columns = list(batch.columns) == list(columns)
        if same_columns and list(item_shapes(connection, batch.id)) == list(items):
            found: UUID = batch.id
            return found
    return None
