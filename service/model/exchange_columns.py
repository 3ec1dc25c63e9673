"""What is known of a step's communication, as output columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.exchange.best_buckets import best_num_buckets, idle_knees, last_bucket_ms
from service.model.exchange.messages import num_ranks
from service.model.nominal_steps import NominalStep
from service.model.times import compute_ms, outside_ms
from service.model.waiting import delay_ms, interval_steps, staleness

ROUND_OFF = 1e-12


def exchange_columns(
    columns: Columns, nominal: NominalStep, found: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """(points,) each; `found` holds the step's own columns."""
    communication = nominal.communication_ms
    return {
        "communication_ms": communication,
        "communication_latency_ms": nominal.latency_ms,
        "communication_bandwidth_ms": nominal.bandwidth_ms,
        "hidden_communication_fraction": _hidden(communication, found["exposed_communication_ms"]),
        "last_bucket_ms": last_bucket_ms(columns),
        "best_num_buckets": best_num_buckets(columns),
        "overlap_gain_ms": _gain(columns, nominal, found),
        "compute_to_communication_ratio": _over(compute_ms(columns), communication),
        "idle_knee_ratio": idle_knees(columns),
        "collective_algorithm": nominal.algorithm,
        "num_data_parallel_ranks": num_ranks(columns),
    }


def _hidden(communication: Floats, exposed: Floats) -> Floats:
    """(points,) share that is hidden; NaN where there is nothing to hide."""
    hidden = 1 - _over(exposed, communication)
    # A difference of nearly equal numbers: its round-off is nothing hidden.
    hidden[np.abs(hidden) < ROUND_OFF] = 0.0
    return hidden


def _over(numerator: Floats, denominator: Floats) -> Floats:
    """(points,) NaN where the denominator is 0."""
    found = np.full(len(denominator), np.nan)
    np.divide(numerator, denominator, out=found, where=denominator > 0)
    return found


def _gain(columns: Columns, nominal: NominalStep, found: dict[str, NDArray[Any]]) -> Floats:
    """(points,) of one thing after the other less the step; NaN where not every step waits."""
    serial = outside_ms(columns) + found["slowest_compute_mean_ms"]
    waits = (staleness(columns) == 0) & (interval_steps(columns) == 1) & (delay_ms(columns) == 0)
    gain = np.where(nominal.is_serial, 0.0, serial - found["step_mean_ms"])
    gain[np.abs(gain) < ROUND_OFF * serial] = 0.0
    return np.where(waits, gain, np.nan)
