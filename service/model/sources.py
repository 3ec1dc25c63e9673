"""Columns as random factors, for points of one family."""

import numpy as np

from service.model.active import LAW_PATHS, is_active
from service.model.columns import Columns
from service.model.distributions import Table, law_of
from service.model.fleet import Spikes
from service.model.laws.source import Source
from service.model.slowest.barrier import SMALLEST_CV


def source_of(columns: Columns, source: str) -> Source | None:
    """The factor of points of one family and table; None where the first has none."""
    if columns.num_points == 0 or not is_active(columns, source)[0]:
        return None
    above = LAW_PATHS[source]
    law = law_of(int(columns[f"{above}.kind"][0]), columns[f"{above}.quantiles"][0])
    cv = np.fmax(columns[f"{above}.cv"], SMALLEST_CV)
    if isinstance(law, Table):
        cv = np.full(columns.num_points, law.cv)
    return Source(law=law, shape=np.vstack([cv, columns[f"{above}.skew"]]))


def spikes_of(columns: Columns) -> Spikes:
    """Of points that all have them."""
    return Spikes(
        probability=columns["variability.spikes.probability"],
        slowdown=columns["variability.spikes.slowdown"],
    )
