"""Why the rows of a comparison moved, and batches that are named by the runs they belong to."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import numpy as np
from msgspec import structs

from service.db import batches, schedule_runs
from service.db.engine import Connection, Row
from service.errors import ConflictError
from service.jobs.actors import Actor
from service.jobs.rate_keys import keys_of
from service.jobs.volume_causes import volume_causes
from service.reports.changes import change
from service.reports.compare import ComparisonRow, RowCauses, pairs_at
from service.reports.cost_changes import CostPair
from service.reports.ideals import LOST
from service.reports.join import Joined
from service.reports.loss_report import VolumeCause
from service.reports.price_causes import rate_changes
from service.reports.volume import Pair, Side

MOST_ROWS: Final = 200
"""Rows of one page whose causes are told."""
LONGEST_S: Final = 10.0
"""Estimated seconds of one core that telling them may take; the rest is told together."""


def batch_of(connection: Connection, actor: Actor, wanted: UUID) -> UUID:
    """The batch of this id, or else that of the run of a schedule with this id.

    An id that is neither is given back, to be refused as a batch that is not there. Raises
    `ConflictError` for a run that has no batch.
    """
    if batches.get_batch(connection, actor.team_id, wanted) is not None:
        return wanted
    run = schedule_runs.get_run(connection, actor.team_id, wanted)
    if run is None:
        return wanted
    if run.batch_id is None:
        detail = f"run {wanted} of schedule {run.schedule_slug} has no batch: it is {run.state}"
        raise ConflictError(detail)
    batch_id: UUID = run.batch_id
    return batch_id


def with_causes(
    connection: Connection,
    joined: Joined,
    rows: Sequence[ComparisonRow],
    batch_ids: tuple[UUID, UUID],
) -> list[ComparisonRow]:
    """The rows of a page of the two batches with the causes of those that did not fail."""
    past, new = (_Batch(connection, batch_id) for batch_id in batch_ids)
    sound = [place for place, row in enumerate(rows) if None not in (row.past[LOST], row.new[LOST])]
    pairs = [
        Pair(
            past=past.side(row.past_point, row.past, row.standard_error[LOST].past),
            new=new.side(row.new_point, row.new, row.standard_error[LOST].new),
        )
        for row in (rows[place] for place in sound)
    ]
    volumes = volume_causes(connection, pairs, longest_s=LONGEST_S)
    costs = _cost_pairs(joined, [rows[place] for place in sound])
    keys = keys_of(connection, costs)
    currencies = (joined.baseline.currency, joined.candidate.currency)
    found = list(rows)
    for place, pair, volume, cost in zip(sound, pairs, volumes, costs, strict=True):
        found[place] = structs.replace(
            rows[place],
            causes=_causes(
                pair,
                volume,
                rate_changes([cost], currencies, rows[place].cost_of_loss, keys),
            ),
        )
    return found


def _causes(pair: Pair, volume: list[VolumeCause], rates: list[Any]) -> RowCauses:
    return RowCauses(
        gpu_hours_lost_per_30_days=change(pair.past.per_30_days, pair.new.per_30_days),
        volume=volume,
        rates=rates,
    )


def _cost_pairs(joined: Joined, rows: Sequence[ComparisonRow]) -> list[CostPair]:
    points = np.array([row.past_point for row in rows], dtype=np.int64)
    return pairs_at(joined, np.searchsorted(joined.past_rows, points))


class _Batch:
    """A batch with its items, to tell which of them a point belongs to."""

    def __init__(self, connection: Connection, batch_id: UUID) -> None:
        self._batch = batches.find_batch(connection, batch_id)
        self._items = batches.list_items(connection, [batch_id])
        self._first = np.array([item.first_point for item in self._items], dtype=np.int64)

    def side(self, point: int, values: dict[str, float | None], error: float | None) -> Side:
        item: Row[Any] = self._items[int(np.searchsorted(self._first, point, side="right")) - 1]
        return Side(
            scenario=item.scenario,
            axes=item.axes,
            point=point - item.first_point,
            profile_slug=item.profile_slug,
            profile_revision=item.profile_revision,
            profile_revision_id=item.profile_revision_id,
            model_version=self._batch.model_version if self._batch is not None else "",
            gpu_hours_lost=values[LOST] or 0.0,
            gpu_hours_lost_se=error,
        )
