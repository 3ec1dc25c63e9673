"""How accurate the slowest of a step is, family by family: prints the model page's figures.

Not run by pytest. `python -m tests.soak.law_accuracy 60` takes that many fleets for each cell and
number of kinds.
"""

import sys

import numpy as np

from service.model.distributions import FAMILIES, law_of, table_of
from service.model.slowest.barrier import PROBABILITIES, Groups, Slowest, slowest_of
from service.model.slowest.sizes import slowest_of_sizes
from tests.benchmarks.results_table import markdown_table
from tests.model.reference import (
    LARGEST_CVS,
    Factor,
    Floats,
    expected_slowest,
    log_cdf_of_slowest,
    random_fleets,
)
from tests.model.slowest.test_tables import fine_mean, log_cdf

KINDS = [
    ("normal", 0.0),
    ("lognormal", 0.0),
    ("gamma", 0.0),
    ("shifted_gamma", 0.1),
    ("shifted_gamma", 1.0),
    ("shifted_gamma", 4.0),
    ("exponential", 0.0),
    ("weibull", 0.0),
    ("pareto", 0.0),
]
NUM_AXIS = 480
SEED = 5000
Cases = list[tuple[float, list[tuple[float, float]]]]


def main(num_fleets: int) -> None:
    """Print one row for each family."""
    rows = [_row(kind, skew, num_fleets) for kind, skew in KINDS]
    rows.append(_table_row(num_fleets))
    print(markdown_table(rows))


def _row(kind: str, skew: float, num_fleets: int) -> dict[str, str]:
    errors: dict[str, list[float]] = {"mean, random": [], "mean, hard": [], "mean, few GPUs": []}
    quantile: list[float] = []
    for num_kinds in (1, 2, 3, 4):
        for name, found in errors.items():
            cases = random_fleets(
                kind,
                num_fleets,
                num_kinds,
                comparable=name == "mean, hard",
                seed=SEED + num_kinds,
                skew=skew,
            )
            if name == "mean, few GPUs":
                cases = [(cv, _few(fleet)) for cv, fleet in cases]
            slowest = _slowest(kind, skew, cases)
            for row, (cv, fleet) in enumerate(cases):
                wanted = expected_slowest(kind, cv, fleet, skew)
                if sum(size for size, _ in fleet) > 1:
                    found.append(abs(slowest.mean[row] / wanted - 1))
                quantile += [
                    _quantile_error(Factor(kind, cv, skew), fleet, x, p)
                    for x, p in zip(slowest.quantiles[row].tolist(), PROBABILITIES, strict=True)
                ]
    return {
        "family": kind + (f", skew {skew:g}" if skew else ""),
        **{name: f"{max(found):.0e}" for name, found in errors.items()},
        "quantiles": f"{max(quantile):.0e}",
        "long axes": f"{_axis_error(kind, skew):.0e}",
    }


def _few(fleet: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(float(1 + size % 8), mean) for size, mean in fleet]


def _slowest(kind: str, skew: float, cases: Cases) -> Slowest:
    fleets = np.array([fleet for _, fleet in cases])
    shape = np.array([[cv for cv, _ in cases], [skew] * len(cases)])
    law = law_of(FAMILIES.index(kind))
    return slowest_of(Groups(law, fleets[:, :, 0].T.copy(), fleets[:, :, 1].T.copy(), shape))


def _quantile_error(factor: Factor, fleet: list[tuple[float, float]], x: float, p: float) -> float:
    """Relative error of x, by one Newton step of the reference."""
    step = 1e-5 * x * min(float(factor.law.std()), 1)
    before, here, after = np.log(
        -log_cdf_of_slowest(factor, fleet, np.array([x - step, x, x + step]))
    )
    return float(abs((here - np.log(-np.log(p))) / ((after - before) / (2 * step)) / x))


def _axis_error(kind: str, skew: float) -> float:
    """Of the mean and the quantiles on long axes, against the points' own quadratures."""
    largest = min(skew / 2, 1) if skew else LARGEST_CVS.get(kind, 1.0)
    worst = 0.0
    for cv in np.geomspace(0.002, largest, 6).tolist():
        for count, speed in ((0.0, 1.0), (1.0, 0.9), (40.0, 0.7)):
            sizes = np.vstack([np.geomspace(1, 1e7, NUM_AXIS), np.full(NUM_AXIS, count)])
            mean = np.vstack([np.ones(NUM_AXIS), np.full(NUM_AXIS, 1 / speed)])
            shape = np.array([[cv] * NUM_AXIS, [skew] * NUM_AXIS])
            groups = Groups(law_of(FAMILIES.index(kind)), sizes, mean, shape)
            direct = slowest_of(groups)
            panels = slowest_of_sizes(groups, np.zeros(NUM_AXIS, dtype=np.int64))
            worst = max(worst, np.abs(panels.mean / direct.mean - 1).max())
            worst = max(worst, np.abs(panels.quantiles / direct.quantiles - 1).max())
    return worst


def _table_row(num_fleets: int) -> dict[str, str]:
    """Tables of 2 to 1 001 distinct quantiles, against 20 nodes on every piece's halves."""
    rng = np.random.default_rng(SEED)
    mean, quantile = [0.0], [0.0]
    for number in range(num_fleets):
        length = int(rng.choice([2, 11, 101, 1001]))
        spread = float(rng.choice([0.02, 0.1, 0.5]))
        table = table_of(tuple(np.sort(rng.lognormal(0, spread, length)).tolist()))
        sizes = np.exp(rng.uniform(0, np.log([10, 1e4, 1e7][number % 3]), 4)).round() + 1
        means: Floats = np.append(1.0, 1 / rng.uniform(0.5, 1, 3))
        fleet = list(zip(sizes.tolist(), means.tolist(), strict=True))
        columns = np.array(fleet)[:, :, np.newaxis]
        found = slowest_of(Groups(table, columns[:, 0], columns[:, 1], np.zeros((2, 1))))
        mean.append(abs(found.mean[0] / fine_mean(table, fleet) - 1))
        share = np.exp(log_cdf(table, fleet, found.quantiles[0]))
        quantile.append(float(np.abs(share - PROBABILITIES).max()))
    return {
        "family": "empirical",
        "mean, random": f"{max(mean):.0e}",
        "mean, hard": "",
        "mean, few GPUs": "",
        "quantiles": f"{max(quantile):.0e} (of p)",
        "long axes": "not interpolated",
    }


if __name__ == "__main__":
    main(int(sys.argv[1]))
