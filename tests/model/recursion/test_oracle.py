"""Rates of bounded staleness against the oracle: stationary solutions of Markov chains, exact, and
independent simulations.
"""

from typing import Any

import numpy as np
import pytest

from service.model.fleet import Fleet
from service.model.laws.exponential import Exponential
from service.model.laws.lognormal import LogNormal
from service.model.laws.normal import Normal
from service.model.laws.source import Source
from service.model.recursion.pattern import Staleness
from tests.model.exchange.exchanges import OracleRow, oracle
from tests.model.fleets_for_tests import one_fleet
from tests.model.recursion.simulations import simulated, stale

LAWS: dict[str, Any] = {"exponential": Exponential, "normal": Normal, "lognormal": LogNormal}


def classes(inputs: dict[str, Any]) -> list[tuple[int, float]]:
    """Nominal ones, then the slow one."""
    if "rates" in inputs:
        return [(len(inputs["rates"]) - 1, 1.0), (1, 1 / min(inputs["rates"]))]
    if "one_rank_speed" in inputs:
        return [(inputs["N"] - 1, 1.0), (1, 1 / inputs["one_rank_speed"])]
    return [(inputs["N"], 1.0), (0, 1.0)]


def fleet_of(rows: list[OracleRow], law: str) -> Fleet:
    num_points = len(rows)
    kinds = np.array([classes(row.inputs) for row in rows], dtype=float)
    cv = [row.inputs.get("cv", 1.0) for row in rows]
    whole = np.ones(num_points, dtype=np.int64)
    return Fleet(
        num_gpus=kinds[:, :, 0].T,
        mean=kinds[:, :, 1].T,
        gpus_per_node=whole,
        tensor_parallel_size=whole,
        outside_ratio=np.zeros(num_points),
        num_removed=0 * whole,
        num_backup=0 * whole,
        autocorrelation=np.zeros(num_points),
        transient=Source(law=LAWS[law], shape=np.stack([cv, np.zeros(num_points)])),
    )


@pytest.mark.parametrize("law", LAWS)
def test_all_rates_per_worker(law: str) -> None:
    rows = [row for row in oracle("ssp_rate_per_worker") if row.inputs["dist"] == law]
    pattern = Staleness(
        staleness=np.array([row.inputs["s"] for row in rows]),
        delay_ratio=np.array([row.inputs.get("gate_delay", 0.0) for row in rows]),
        load_ratio=np.zeros(len(rows)),
    )
    found = simulated(fleet_of(rows, law), pattern, draws=150)
    expected = 1 / np.array([row.expected for row in rows])
    # The tolerance of a simulated row is four of its standard errors.
    tolerance = np.array([float(row.tolerance) for row in rows]) * expected**2
    off = np.abs(found.mean - expected)
    assert (off < 4 * found.mean_se + tolerance).all()
    assert (found.mean_se < 0.015 * expected).all()


def test_number_of_rows() -> None:
    assert len(oracle("ssp_rate_per_worker")) == 60


def test_without_variability_the_delay_decides() -> None:
    for row in oracle("ssp_rate_deterministic_delay"):
        pattern = stale(row.inputs["s"], row.inputs["delay_over_compute"])
        found = simulated(one_fleet([(4, 1)], common=("normal", 1e-7)), pattern)
        assert 1 / found.mean[0] == pytest.approx(row.expected, abs=float(row.tolerance))


def test_fully_asynchronous_batches_are_the_limit_of_large_staleness() -> None:
    # K of P workers: a batch takes K E[X] / P, each worker its own mean.
    row = oracle("kbatch_async_iteration_time")[0]
    found = simulated(
        one_fleet([(row.inputs["P"], 1)], transient=("lognormal", 0.5)), stale(900), draws=100
    )
    batch = row.inputs["K"] * found.mean[0] / row.inputs["P"]
    assert batch == pytest.approx(row.expected, rel=1e-3)


def test_persistent_slowness_is_not_helped() -> None:
    found = simulated(
        one_fleet([(7, 1), (1, 1 / 0.7)], transient=("normal", 0.05)), stale(16), draws=100
    )
    assert found.mean[0] == pytest.approx(1 / 0.7, rel=1e-6)
    assert found.mean_se[0] < 1e-6
