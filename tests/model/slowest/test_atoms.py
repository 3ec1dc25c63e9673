"""Tables of quantiles multiplied with other factors, against sums over all their pieces."""

from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from service.model.distributions import Pareto
from service.model.laws.empirical import Table
from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.slowest.atoms import atoms_of, survival_of
from service.model.slowest.pooled import pooled_slowest
from tests.model.fleets_for_tests import one_fleet, source

CV = 0.1334
FEW = (1.0, 1.05, 1.1, 1.2, 1.5, 2.0)


def ragged(num_values: int, seed: int) -> tuple[float, ...]:
    rng = np.random.default_rng(seed)
    values: list[float] = np.sort(1 + rng.gamma(1.5, 0.12, num_values)).tolist()
    return tuple(values)


def by_table(table: Table) -> Source:
    return Source(law=table, shape=np.array([[table.cv], [0.0]]))


def slowest(num_gpus: float, sources: dict[str, Source], **numbers: int) -> tuple[float, Floats]:
    fleet = one_fleet([(num_gpus, 1.0)], **{"gpus_per_node": 1, **numbers})
    given: dict[str, Any] = dict(sources)
    found = pooled_slowest(replace(fleet, **given))
    return float(found.mean[0]), found.quantiles[0]


def values_of(table: Table, per_interval: int) -> Floats:
    u = (np.arange(per_interval) + 0.5) / per_interval
    left, right = table.knots[:-1, np.newaxis], table.knots[1:, np.newaxis]
    values: Floats = (left + (right - left) * u).ravel()
    return values


def mean_of_slowest(num_gpus: float, survival: Any) -> float:
    """By eight nodes on each of many short pieces."""
    ends = np.concatenate([np.linspace(0.3, 3.5, 321), np.geomspace(3.5, 60, 60)[1:]])
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(ends)[:, np.newaxis] / 2
    t = (ends[:-1, np.newaxis] + half * (1 + nodes)).ravel()
    above = np.array([survival(x) for x in t])
    exceeds = -np.expm1(num_gpus * np.log1p(-np.minimum(above, 1 - 1e-16)))
    return float(ends[0] + (exceeds * (half * weights).ravel()).sum())


def above_lognormal(x: Floats) -> Floats:
    spread = np.sqrt(np.log1p(CV * CV))
    above: Floats = stats.norm.sf((np.log(x) + spread * spread / 2) / spread)
    return above


def above_pareto(x: Floats) -> Floats:
    power = 1 + np.sqrt(1 + CV**-2)
    above: Floats = np.minimum(1, (x * power / (power - 1)) ** -power)
    return above


OTHERS = [
    (source(("lognormal", CV)), above_lognormal),
    (Source(law=Pareto, shape=np.array([[CV], [0.0]])), above_pareto),
]


@pytest.mark.parametrize("num_gpus", [16, 64])
@pytest.mark.parametrize(("other", "above"), OTHERS, ids=["lognormal", "pareto"])
def test_whichever_source_holds_the_table(num_gpus: int, other: Source, above: Any) -> None:
    table = Table(ragged(100, 3))
    values = values_of(table, 12)
    expected = mean_of_slowest(num_gpus, lambda t: above(t / values).mean())
    names = [("transient", "replica"), ("transient", "persistent"), ("persistent", "transient")]
    for first, second in names:
        found, _ = slowest(num_gpus, {first: other, second: by_table(table)})
        assert found == pytest.approx(expected, rel=1e-5)


def test_a_table_shared_by_nodes_of_other_gpus() -> None:
    table = Table(ragged(60, 4))
    values = values_of(table, 20)

    def above(t: float) -> float:
        below_of_node = (1 - above_lognormal(t / values)) ** 4
        return float(1 - below_of_node.mean())

    expected = mean_of_slowest(8, above)
    sources = {"node": by_table(table), "transient": OTHERS[0][0]}
    assert slowest(32, sources, gpus_per_node=4)[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("among", [(), (0.002,), FEW[:3]], ids=["alone", "narrow", "table"])
def test_a_table_within_nodes_that_share_another_factor(among: tuple[float, ...]) -> None:
    """The shared factor by its own quantiles, 4 000 of them; a narrow third one by 40."""
    table = Table(FEW)
    sources = {"node": OTHERS[0][0], "transient": by_table(table)}
    third = np.ones(1)
    if len(among) == 1:
        sources["persistent"] = source(("lognormal", among[0]))
        third = np.exp(among[0] * special.ndtri((np.arange(40) + 0.5) / 40))
    elif among:
        sources["persistent"] = by_table(Table(among))
        third = values_of(Table(among), 200)
    spread = np.sqrt(np.log1p(CV * CV))
    shared = np.exp(spread * special.ndtri((np.arange(4000) + 0.5) / 4000) - spread**2 / 2)
    grid = np.linspace(0.5, 2.5, 8001)
    of_one = np.mean([np.interp(grid / x, table.knots, np.linspace(0, 1, 6)) for x in third], 0)

    def above(t: float) -> float:
        below: Floats = np.interp(t / shared, grid, of_one) ** 4
        return float(1 - below.mean())

    expected = mean_of_slowest(4, above)
    assert slowest(16, sources, gpus_per_node=4)[0] == pytest.approx(expected, rel=5e-5)


def test_two_tables_in_either_order() -> None:
    one, other = Table(ragged(100, 5)), Table(FEW)
    first, _ = slowest(16, {"transient": by_table(one), "persistent": by_table(other)})
    second, _ = slowest(16, {"transient": by_table(other), "persistent": by_table(one)})
    assert first == pytest.approx(second, rel=1e-5)
    values, knots = values_of(one, 12), other.knots
    expected = mean_of_slowest(
        16, lambda t: 1 - np.interp(t / values, knots, np.linspace(0, 1, 6)).mean()
    )
    assert first == pytest.approx(expected, rel=2e-5)


def test_steps_that_leave_gpus_behind_follow_the_order_statistic() -> None:
    table = Table(FEW)
    found, quantiles = slowest(14, {"transient": by_table(table)}, num_backup=6)
    places = special.betaincinv(8, 7, np.array([0.5, 0.95, 0.99]))
    assert quantiles == pytest.approx(
        np.interp(places, np.linspace(0, 1, 6), table.knots), rel=1e-9
    )
    even = special.betaincinv(8, 7, (np.arange(200_000) + 0.5) / 200_000)
    expected = np.interp(even, np.linspace(0, 1, 6), table.knots).mean()
    assert found == pytest.approx(expected, rel=1e-5)


def test_long_tables_become_a_bounded_number_of_masses() -> None:
    table = Table(ragged(10_001, 6))
    atoms = atoms_of([table])
    assert len(atoms.weight) < 1500
    assert atoms.weight.sum() == pytest.approx(1, rel=1e-12)
    assert atoms.weight @ np.exp(atoms.log_x) == pytest.approx(1, rel=1e-9)
    start = perf_counter()
    sources = {"transient": by_table(table), "persistent": OTHERS[0][0]}
    found, _ = slowest(64, sources)
    assert perf_counter() - start < 5
    values = values_of(table, 1)
    expected = mean_of_slowest(64, lambda t: above_lognormal(t / values).mean())
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_product_of_two_tables_has_a_survival_of_its_own() -> None:
    uniform = Table((1.0, 2.0))
    v = np.log(np.array([0.3, 0.6, 1.0, 1.5, 1.9]))
    # Of two uniform numbers on 2/3 … 4/3, by their density over the first.
    first = 2 / 3 + (np.arange(100_000) + 0.5) / 150_000
    expected = [1 - np.interp(np.exp(x) / first, [2 / 3, 4 / 3], [0, 1]).mean() for x in v]
    assert survival_of([uniform, uniform], v) == pytest.approx(np.array(expected), abs=3e-5)
