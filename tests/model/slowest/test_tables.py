"""The slowest by a table of quantiles, against its closed form and finer rules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from service.model.laws.empirical import Table
from service.model.laws.law import Floats
from service.model.slowest.barrier import PROBABILITIES, Groups, Slowest, slowest_of
from service.model.slowest.sizes import slowest_of_sizes

ANY = np.zeros((2, 1))
SIZES = np.array([1.0, 2, 3, 7, 8, 20, 64, 1000, 16_384, 1e6, 1e7])
Fleet = list[tuple[float, float]]


def some_tables(num_quantiles: int) -> list[tuple[float, ...]]:
    """Smooth, heavy, rounded so that many are equal, and with a step at the top."""
    rng = np.random.default_rng(num_quantiles)
    smooth = np.sort(rng.lognormal(0, 0.3, num_quantiles))
    heavy = np.exp(-0.5 * np.log1p(-np.linspace(0, 1 - 0.5 / num_quantiles, num_quantiles)))
    topped = np.append(smooth[:-1], smooth[-1] * 3)
    return [tuple(t.tolist()) for t in (smooth, heavy, smooth.round(1), topped)]


TABLES = [(0.0, 1.0), (1.0, 1.0, 2.0), (1.0, 2.0, 2.0), *some_tables(11), *some_tables(1001)]


def slowest(table: Table, fleets: list[Fleet]) -> Slowest:
    fleet = np.array(fleets)
    return slowest_of(
        Groups(table, fleet[:, :, 0].T.copy(), fleet[:, :, 1].T.copy(), np.zeros((2, len(fleets))))
    )


def closed_mean(table: Table, size: float) -> float:
    """The integral of the quantile function by the maximum's distribution, piece by piece."""
    below = np.linspace(0, 1, len(table.knots))
    powers = np.diff(below ** (size + 1)) / np.diff(below) / (size + 1)
    return float(table.knots[-1] - np.sum(np.diff(table.knots) * powers))


@pytest.mark.parametrize("quantiles", TABLES)
def test_one_kind_has_closed_forms(quantiles: tuple[float, ...]) -> None:
    table = Table(quantiles)
    found = slowest(table, [[(size, 1.25)] for size in SIZES.tolist()])
    wanted = [1.25 * closed_mean(table, size) for size in SIZES.tolist()]
    assert found.mean == pytest.approx(wanted, rel=1e-11)
    upper = -np.expm1(np.log(PROBABILITIES) / SIZES[:, np.newaxis])
    quantile = 1.25 * table.upper_quantile(upper, ANY)
    assert found.quantiles == pytest.approx(quantile, rel=1e-12)


def log_cdf(table: Table, fleet: Fleet, x: Floats) -> Floats:
    below = np.linspace(0, 1, len(table.knots))
    total = np.zeros_like(x)
    for num_gpus, mean in fleet:
        # With a table of distinct values, the distribution function by plain interpolation.
        with np.errstate(divide="ignore"):
            total += num_gpus * np.log(np.interp(x / mean, table.knots, below))
    return total


def fine_mean(table: Table, fleet: Fleet) -> float:
    """Twenty nodes between all knots and places that halve either tail, and between those."""
    tails = 2.0 ** -np.arange(1.0, 45)
    own = np.concatenate([table.knots, *(table.upper_quantile(q, ANY) for q in (tails, 1 - tails))])
    ends = np.unique(np.concatenate([mean * own for _, mean in fleet]))
    ends = np.union1d(ends, (ends[1:] + ends[:-1]) / 2)
    roots, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(ends)[:, np.newaxis] / 2
    above = -np.expm1(log_cdf(table, fleet, (ends[:-1, np.newaxis] + half * (roots + 1)).ravel()))
    return float(ends[0] + np.sum((half * weights).ravel() * above))


@pytest.mark.parametrize("num_quantiles", [2, 5, 40, 300])
def test_several_kinds_against_a_finer_rule(num_quantiles: int) -> None:
    rng = np.random.default_rng(num_quantiles)
    table = Table(tuple(np.sort(rng.lognormal(0, 0.2, num_quantiles)).tolist()))
    fleets: list[Fleet] = []
    for largest in (8, 1e3, 1e7):
        for _ in range(6):
            sizes = np.exp(rng.uniform(0, np.log(largest), 4)).round()
            means = np.append(1.0, 1 / rng.uniform(0.6, 1, 3))
            fleets.append(list(zip(sizes.tolist(), means.tolist(), strict=True)))
    found = slowest(table, fleets)
    wanted = [fine_mean(table, fleet) for fleet in fleets]
    assert found.mean == pytest.approx(wanted, rel=1e-10)
    for row, fleet in enumerate(fleets):
        log_p = log_cdf(table, fleet, found.quantiles[row])
        assert np.exp(log_p) == pytest.approx(np.array(PROBABILITIES), rel=1e-9)


def test_a_jump_takes_the_quantiles_that_it_spans() -> None:
    # Of two GPUs at least one is at the jump with probability 5/9 - 1/9 … 8/9.
    table = Table((1.0, 2.0, 2.0, 3.0))
    found = slowest(table, [[(1.0, 1.0)], [(2.0, 1.0)], [(1.0, 1.0)], [(1.0, 1.1)]])
    middle = table.knots[1]
    assert found.quantiles[0, 0] == pytest.approx(middle, rel=1e-14)
    assert found.quantiles[3, 0] == pytest.approx(1.1 * middle, rel=1e-14)
    assert found.quantiles[1, 0] > middle


def test_equal_kinds_may_be_listed_apart() -> None:
    table = Table(some_tables(11)[0])
    together = slowest(table, [[(100.0, 1.0), (5.0, 1.2)]])
    apart = slowest(table, [[(60.0, 1.0), (5.0, 1.2), (40.0, 1.0), (0.0, 1.5)]])
    assert apart.mean == pytest.approx(together.mean, rel=1e-13)
    assert apart.quantiles == pytest.approx(together.quantiles, rel=1e-13)


def test_one_gpu_has_its_own_mean_exactly() -> None:
    assert slowest(Table((1.0, 2.0, 7.0)), [[(1.0, 1.25)]]).mean.tolist() == [1.25]


def test_equal_quantiles_are_no_variability() -> None:
    found = slowest(Table((4.0, 4.0)), [[(100.0, 1.0), (3.0, 1.5)], [(7.0, 1.0), (0.0, 1.5)]])
    assert found.mean == pytest.approx([1.5, 1], rel=1e-15)
    assert found.quantiles == pytest.approx(np.repeat([[1.5], [1.0]], 3, axis=1), rel=1e-15)


def test_a_point_does_not_depend_on_its_neighbours() -> None:
    table = Table(some_tables(1001)[0])
    rng = np.random.default_rng(2)
    fleets: list[Fleet] = [
        [(float(size), 1.0), (3.0, speed)]
        for size, speed in zip(rng.integers(1, 9000, 80), rng.choice([1.0, 1.2], 80), strict=True)
    ]
    together = slowest(table, fleets)
    for row in range(0, 80, 7):
        alone = slowest(table, [fleets[row]])
        assert alone.mean[0] == pytest.approx(together.mean[row], rel=1e-12)
        assert alone.quantiles[0] == pytest.approx(together.quantiles[row], rel=1e-12)


def test_long_axes_are_not_interpolated() -> None:
    table = Table(some_tables(11)[0])
    sizes = np.geomspace(1, 1e7, 300)[np.newaxis]
    groups = Groups(table, sizes, np.ones_like(sizes), np.zeros((2, 300)))
    found = slowest_of_sizes(groups, np.zeros(300, dtype=np.int64))
    wanted = [closed_mean(table, size) for size in sizes[0].tolist()]
    # Between one and two GPUs the distribution function starts like a root.
    assert found.mean == pytest.approx(wanted, rel=1e-9)
    assert found.mean[sizes[0] > 2] == pytest.approx(np.array(wanted)[sizes[0] > 2], rel=1e-11)


def test_a_straight_line_has_the_maximum_of_uniform_numbers() -> None:
    # E[max of 64 uniform numbers] = 64 / 65; the mean of one is 1/2.
    found = slowest(Table((0.0, 1.0)), [[(64.0, 1.0)]])
    assert found.mean[0] == pytest.approx(2 * 0.9846153846153847, rel=1e-14)
    uniform = stats.make_distribution(stats.uniform)()
    largest = stats.order_statistic(uniform, r=64, n=64)
    wanted = [2 * largest.icdf(p) for p in PROBABILITIES]
    assert found.quantiles[0] == pytest.approx(wanted, rel=1e-12)


def test_plain_sampling_agrees_within_its_standard_error() -> None:
    table = Table(some_tables(1001)[0])
    rng = np.random.default_rng(20_261_130)
    fleet: Fleet = [(200.0, 1.0), (3.0, 1 / 0.8)]
    places = np.linspace(0, 1, len(table.knots))

    def drawn(num_gpus: int) -> Floats:
        factors = np.interp(rng.random((20_000, num_gpus)), places, table.knots)
        return np.asarray(factors.max(axis=1), dtype=np.float64)

    steps = np.maximum(drawn(200), drawn(3) / 0.8)
    found = slowest(table, [fleet])
    assert abs(found.mean[0] - steps.mean()) < 4 * steps.std() / np.sqrt(len(steps))
    for p, quantile in zip(PROBABILITIES, found.quantiles[0], strict=True):
        share = np.mean(steps <= quantile)
        assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / len(steps))


@given(
    quantiles=st.lists(st.sampled_from([0.0, 1e-9, 0.5, 1.0, 1.0, 1.5, 40.0]), min_size=1).map(
        sorted
    ),
    size=st.sampled_from([2.0, 5.0, 64.0, 4096.0, 1e7]),
    mean=st.sampled_from([1.0, 1.25]),
)
def test_any_table_has_its_closed_form(quantiles: list[float], size: float, mean: float) -> None:
    table = Table((*quantiles, 41.0))
    found = slowest(table, [[(size, mean)]])
    assert found.mean[0] == pytest.approx(mean * closed_mean(table, size), rel=1e-10)
    upper = -np.expm1(np.log(PROBABILITIES) / size)
    assert found.quantiles[0] == pytest.approx(mean * table.upper_quantile(upper, ANY), rel=1e-10)
    assert found.mean[0] >= mean
