"""What is known of a step's communication, as output columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.exchange.best_buckets import best_buckets
from service.model.exchange.buckets import last_bucket_ms, runs_of
from service.model.exchange.collectives import FIXED, exchange_of, half_part_ms, part_ms
from service.model.exchange.idle_knee import idle_ratio
from service.model.exchange.messages import num_ranks
from service.model.nominal_steps import NominalStep
from service.model.stage_sizes import has_pipeline
from service.model.times import compute_ms, outside_ms
from service.model.waiting import BUCKETS, FSDP, delay_ms, is_local, waits_every_step

ROUND_OFF = 1e-12
QUADRATURE_ERROR = 1e-9
NOTHING = 1e-15


def exchange_columns(
    columns: Columns, nominal: NominalStep, found: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """(points,) each; `found` holds the step's own columns."""
    communication = nominal.communication_ms
    return {
        "communication_ms": communication,
        "communication_latency_ms": nominal.latency_ms,
        "communication_bandwidth_ms": nominal.bandwidth_ms,
        "hidden_communication_fraction": _hidden(
            _exchanged(columns, communication) + delay_ms(columns),
            found["exposed_communication_ms"],
            found["step_mean_ms"],
        ),
        "last_bucket_ms": _never_hidden(columns),
        "best_num_buckets": _best(columns, found["slowest_compute_mean_ms"]),
        "overlap_gain_ms": _gain(columns, nominal, found),
        "compute_to_communication_ratio": _over(compute_ms(columns), communication),
        "idle_knee_ratio": idle_ratio(columns),
        "collective_algorithm": nominal.algorithm,
        "num_data_parallel_ranks": num_ranks(columns),
    }


def _exchanged(columns: Columns, communication: Floats) -> Floats:
    """(points,) what a step exchanges on average, ms: of local steps all fragments once a round."""
    exchanged = communication.copy()
    rows = np.flatnonzero(is_local(columns))
    if len(rows):
        part = columns.part(rows)
        fragments, whole = part["synchronization.fragments"], exchange_of(part)
        of_round = part_ms(part, 1 / fragments, whole) * fragments + whole.compression_ms
        exchanged[rows] = of_round / part["synchronization.steps"]
    return exchanged


def _never_hidden(columns: Columns) -> Floats:
    """(points,) the last bucket, of local steps its share of a step, or the last layer's scatter.

    NaN without overlap.
    """
    found = np.full(columns.num_points, np.nan)
    for kind, last in ((BUCKETS, _last_bucket), (FSDP, _last_scatter)):
        rows = np.flatnonzero(columns["overlap.kind"] == kind)
        if len(rows):
            found[rows] = last(columns.part(rows))
    return found


def _last_bucket(columns: Columns) -> Floats:
    rounds = np.where(is_local(columns), columns["synchronization.steps"], 1.0)
    share: Floats = last_bucket_ms(runs_of(columns)) / rounds
    return share


def _last_scatter(columns: Columns) -> Floats:
    return half_part_ms(columns, 1 / columns["overlap.num_layers"])


def _best(columns: Columns, slowest_ms: Floats) -> Floats:
    """(points,) where the slowest GPU takes what is expected of it.

    NaN where every exchange takes a fixed time, or its parts are not told apart; and of pipelines,
    with which buckets are not defined.
    """
    found = np.full(columns.num_points, np.nan)
    rows = np.flatnonzero((columns["communication.kind"] != FIXED) & ~has_pipeline(columns))
    if len(rows):
        slowest = slowest_ms[rows] / compute_ms(columns)[rows]
        found[rows] = best_buckets(columns.part(rows), slowest).num_buckets
    return found


def _hidden(waited: Floats, exposed: Floats, step: Floats) -> Floats:
    """(points,) share that is hidden; NaN where there is nothing to hide."""
    hidden = 1 - _over(exposed, waited)
    # A difference of nearly equal numbers: what quadrature leaves of it is nothing hidden.
    hidden[np.abs(hidden * waited) < QUADRATURE_ERROR * step] = 0.0
    return hidden


def _over(numerator: Floats, denominator: Floats) -> Floats:
    """(points,) NaN where the denominator is nothing."""
    found = np.full(len(denominator), np.nan)
    np.divide(numerator, denominator, out=found, where=denominator > NOTHING * numerator)
    return found


def _gain(columns: Columns, nominal: NominalStep, found: dict[str, NDArray[Any]]) -> Floats:
    """(points,) of one thing after the other less the step; NaN where not every step waits."""
    serial = outside_ms(columns) + found["slowest_compute_mean_ms"]
    waits = waits_every_step(columns) & (delay_ms(columns) == 0)
    gain = np.where(nominal.is_serial, 0.0, serial - found["step_mean_ms"])
    gain[np.abs(gain) < ROUND_OFF * serial] = 0.0
    return np.where(waits, gain, np.nan)
