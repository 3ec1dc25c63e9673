"""How often intervals hold the truth, over tables whose truth is known.

`python -m tests.calibration.interval_rates 400` prints the table of `.github/calibration.md`.
"""

import sys
from typing import Final

import numpy as np

from service.calibration.components import components_of
from service.calibration.findings import Estimate
from service.calibration.fitted import Fitted, fitted_of, outliers_of
from service.calibration.gaps import gaps_of
from service.calibration.observed import observed_of
from tests.calibration.synthetic_tables import COMPUTE_MS, Kind, Table, cells_of, table_of

CONFIDENCE: Final = 0.9
TRUTH_STEPS = 2_000

KINDS: Final = {
    "20 steps, 8 ranks": Kind(20, 8),
    "20 steps, 64 ranks": Kind(20, 64),
    "400 steps, 32 ranks": Kind(400, 32),
    "100 steps, 256 ranks": Kind(100, 256),
    "lognormal, 5 % each": Kind(
        100, 32, law="lognormal", persistent=0.05, common=0.05, transient=0.05
    ),
    "gamma, 10 % each": Kind(60, 32, law="gamma", persistent=0.1, common=0.1, transient=0.1),
    "lognormal 10 %, 10 % missing": Kind(
        50, 16, law="lognormal", persistent=0.1, common=0.05, transient=0.1, missing=0.1
    ),
    "20 % missing": Kind(40, 16, missing=0.2),
    "autocorrelation 0.5, 20 steps": Kind(20, 16, phi=0.5),
    "autocorrelation 0.5, 20 % missing": Kind(40, 16, phi=0.5, missing=0.2),
    "autocorrelation 0.8, 50 steps": Kind(50, 16, phi=0.8),
    "autocorrelation 0.9, 200 steps": Kind(200, 16, phi=0.9),
    "nodes 3 %": Kind(40, 32, node=0.03),
    "replicas 2 %": Kind(60, 32, replica=0.02),
    "2 of 32 ranks slow": Kind(40, 32, slow=(0.6, 0.7)),
    "4 stages, 1 of 32 slow": Kind(40, 32, slow=(0.6,), num_stages=4),
    "neither ranks nor steps differ": Kind(40, 16, persistent=0.0, common=0.0),
    "ranks 0.2 % under 3 %": Kind(30, 64, persistent=0.002, transient=0.03),
}


class Tally:
    """Hits and trials by what is estimated."""

    def __init__(self) -> None:
        self.hits: dict[str, int] = {}
        self.trials: dict[str, int] = {}

    def add(self, name: str, estimate: Estimate | None, truth: float) -> None:
        """Count one interval; an open one promises nothing."""
        if estimate is None or estimate.low is None or estimate.high is None:
            return
        self.trials[name] = self.trials.get(name, 0) + 1
        self.hits[name] = self.hits.get(name, 0) + int(estimate.low <= truth <= estimate.high)


def rates_of(kind: Kind, num_tables: int, first_seed: int = 0) -> Tally:
    """Fit so many tables of a kind."""
    tally = Tally()
    for seed in range(first_seed, first_seed + num_tables):
        table = table_of(kind, seed)
        fitted = fitted_of(observed_of(table.timings), CONFIDENCE)
        _add_parts(tally, kind, fitted)
        _add_ranks(tally, kind, table, fitted)
        if kind.num_stages == 1 and kind.num_ranks <= 64:
            _add_gaps(tally, kind, table, seed)
    return tally


def _add_parts(tally: Tally, kind: Kind, fitted: Fitted) -> None:
    parts = components_of(fitted.split)
    tally.add("persistent", parts.persistent_cv, kind.persistent)
    tally.add("node", parts.node_cv, kind.node)
    tally.add("common", parts.common_cv, kind.common)
    tally.add("replica", parts.replica_cv, kind.replica)
    tally.add("transient", parts.transient_cv, kind.transient)
    levels = 1 + 0.5 * np.arange(kind.num_stages)
    tally.add("compute", fitted.compute_ms, COMPUTE_MS * float(levels.mean()))
    tally.add("lag 1", fitted.split.autocorrelation.lag_1, kind.phi)


def _add_ranks(tally: Tally, kind: Kind, table: Table, fitted: Fitted) -> None:
    """Speeds of the slow ranks, each with what stays with it."""
    for outlier in outliers_of(fitted, CONFIDENCE):
        if outlier.rank < len(kind.slow):
            tally.add("speed", outlier.speed_fraction, 1 / float(table.of_rank[outlier.rank]))


def _add_gaps(tally: Tally, kind: Kind, table: Table, seed: int) -> None:
    """The mean of slowest by mean, against that of many more steps of the same ranks."""
    rng = np.random.default_rng(seed + 1_000_000)
    cells = table.of_rank * cells_of(kind._replace(phi=0.0), rng, TRUTH_STEPS)
    cells[rng.random(cells.shape) < kind.missing] = np.nan
    truth = float(np.mean(np.nanmax(cells, axis=1) / np.nanmean(cells, axis=1)))
    gaps = gaps_of(observed_of(table.timings), CONFIDENCE)
    tally.add("max/mean", gaps.max_to_mean_ratio, truth)


COLUMNS: Final = (
    "persistent",
    "node",
    "common",
    "replica",
    "transient",
    "compute",
    "speed",
    "lag 1",
    "max/mean",
)


def main(num_tables: int, first_seed: int) -> None:
    """Print the measured rates in percent, of seeds that no method was chosen by."""
    print(f"| {num_tables} tables each | {' | '.join(COLUMNS)} |")
    print(f"|---|{'---|' * len(COLUMNS)}")
    for name, kind in KINDS.items():
        tally = rates_of(kind, num_tables, first_seed)
        shown = [
            f"{100 * tally.hits[column] / tally.trials[column]:.0f}"
            if tally.trials.get(column)
            else ""
            for column in COLUMNS
        ]
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
