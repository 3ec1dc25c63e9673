"""The mean of several steps: stored values, brute force, and what must hold whatever the law."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from service.model.clusters.spread import spread_of
from service.model.clusters.step_noise import slowest_moments
from service.model.distributions import (
    Exponential,
    Floats,
    Gamma,
    Law,
    LogNormal,
    Normal,
    Pareto,
    ShiftedGamma,
    Weibull,
    table_of,
)
from service.model.fleet import Fleet, Spikes
from service.model.laws.averages import Averages, are_known, average_keys, averaged, variance_ratio
from service.model.laws.source import Source
from service.model.slowest.barrier import Groups, Slowest, moments_of, slowest_of
from service.model.slowest.pooled import pooled_slowest
from tests.model.fleets_for_tests import one_fleet

DATA = Path(__file__).parents[1] / "data" / "communication.csv"
LAWS: dict[str, Law] = {
    "normal": Normal,
    "AR1 normal": Normal,
    "exponential": Exponential,
    "lognormal": LogNormal,
}
FAMILIES = (Normal, LogNormal, Gamma, ShiftedGamma, Exponential, Weibull, Pareto)
TABLE = tuple(np.exp(0.1 * np.random.default_rng(3).standard_normal(40).cumsum() / 6).cumsum())


def source(law: Law, *values: tuple[float, float]) -> Source:
    """The law with (cv, skew) at every point."""
    return Source(law=law, shape=np.array(values).T)


def spikes(probability: float, slowdown: float) -> Spikes:
    return Spikes(probability=np.array([probability]), slowdown=np.array([slowdown]))


def mean_of(
    law: Source | None, steps: int, given_spikes: Spikes | None = None, phi: float = 0.0
) -> Averages:
    return averaged(law, given_spikes, np.array([steps]), np.array([phi]))


def slowest(num_gpus: float, found: Averages) -> Slowest:
    """Of equal GPUs."""
    assert found.source is not None
    one = np.array([[num_gpus]])
    return slowest_of(Groups(found.source.law, one, found.mean[np.newaxis], found.source.shape))


def fleet_of(num_gpus: float, found: Averages, **lasting: tuple[str, float]) -> Fleet:
    fleet = one_fleet([(num_gpus, 1.0)], **lasting)
    return replace(fleet, transient=found.source, mean=fleet.mean * found.mean)


def rows() -> list[tuple[dict[str, object], float, float]]:
    with DATA.open() as file:
        read = list(csv.DictReader(file))
    return [
        (json.loads(row["inputs"]), float(row["expected"]), float(row["tolerance"]))
        for row in read
        if row["model"] == "local_steps_mean_max_per_step"
    ]


def test_all_stored_values_are_there() -> None:
    assert len(rows()) == 16


@pytest.mark.parametrize(("inputs", "expected", "tolerance"), rows())
def test_stored_values(inputs: dict[str, object], expected: float, tolerance: float) -> None:
    given = {name: float(str(value)) for name, value in inputs.items() if name != "dist"}
    within = given.get("cv_within", given.get("cv", 1.0))
    steps, phi = int(given["H"]), given.get("phi", 0.0)
    lasting = given.get("cv_persistent", 0.0)
    law = LAWS[str(inputs["dist"])]
    own = mean_of(source(law, (max(within, 1e-12), 0.0)), steps, phi=phi)
    if lasting > 0:
        # The stored rows are of sums of normal factors.
        assert own.source is not None
        total = np.hypot(own.source.shape[0, 0], lasting)
        own = own._replace(source=source(Normal, (total, 0.0)))
    assert slowest(given["N"], own).mean[0] == pytest.approx(expected, abs=tolerance)


def test_a_lasting_factor_multiplies_the_mean() -> None:
    found = fleet_of(64, mean_of(source(Normal, (0.05, 0)), 10), persistent=("normal", 0.02))
    assert pooled_slowest(found).mean[0] == pytest.approx(1.060479, abs=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("phi", [0.0, 1e-9, 0.3, 0.9, 0.999])
def test_the_variance_of_autocorrelated_means(steps: int, phi: float) -> None:
    lags = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    expected = (phi**lags).mean() if phi > 0 else 1 / steps
    found = variance_ratio(np.array([steps]), np.array([phi]))[0]
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("steps", [2, 7, 100_000])
def test_closed_forms(steps: int) -> None:
    many = np.array([steps])
    root = np.sqrt(steps)
    cases: list[tuple[Source, Law, float]] = [
        (source(Normal, (0.1, 0.0)), Normal, 0.0),
        (source(Gamma, (0.4, 0.0)), Gamma, 0.0),
        (source(ShiftedGamma, (0.1, 0.6)), ShiftedGamma, 0.6 / root),
        (source(Exponential, (0.4, 0.0)), ShiftedGamma, 2 / root),
    ]
    for one, law, skew in cases:
        found = averaged(one, None, many, np.zeros(1)).source
        assert found is not None
        assert found.law is law
        assert found.shape[:, 0] == pytest.approx([one.shape[0, 0] / root, skew], rel=1e-14)


@pytest.mark.parametrize("skew", [3e-6, 1e-4, 0.01])
def test_little_skewed_means_are_nearly_normal(skew: float) -> None:
    # To first order in the skewness quantiles move by (z^2 - 1) / 6 of it (Cornish and Fisher).
    cv, num_gpus = 1e-6, 64.0
    shape = np.array([[cv], [skew]])
    one = np.array([[num_gpus]])
    found = slowest_of(Groups(ShiftedGamma, one, np.ones((1, 1)), shape)).mean[0]
    z = np.linspace(-2, 9, 200_001)
    weight = num_gpus * np.exp((num_gpus - 1) * special.log_ndtr(z) - z * z / 2)
    weight /= weight.sum()
    expected = (weight * (z + skew * (z * z - 1) / 6)).sum()
    assert (found - 1) / cv == pytest.approx(expected, abs=max(2e-9, skew**2))


@pytest.mark.parametrize("law", FAMILIES)
def test_one_step_is_the_law_itself(law: Law) -> None:
    one = source(law, (0.2, 1.0))
    found = mean_of(one, 1, spikes(0.1, 2.0))
    assert found.source is one
    assert found.spikes is not None
    assert found.mean[0] == 1


def test_nothing_varies() -> None:
    assert mean_of(None, 5).source is None
    assert mean_of(source(table_of((2.0, 2.0)), (0, 0)), 5).source is None
    always = mean_of(None, 5, spikes(1.0, 3.0))
    assert always.source is None
    assert always.mean[0] == 3


def test_keys_tell_which_points_share_a_table() -> None:
    steps = np.array([1, 4, 4, 1, 4, 8])
    shape = np.array([[0.1, 0.2, 0.1, 0.3, 0.1, 0.1], [np.nan] * 6])
    assert not average_keys(Source(law=Gamma, shape=shape), None, steps).any()
    assert not average_keys(None, None, steps).any()
    keys = average_keys(Source(law=LogNormal, shape=shape), None, steps)
    assert [key == keys[2] for key in keys] == [False, False, True, False, True, False]
    assert keys[0] == keys[3]
    some = Spikes(probability=np.full(6, 0.1), slowdown=np.array([2.0, 2, 2, 2, 3, 2]))
    keys = average_keys(Source(law=Gamma, shape=shape), some, steps)
    assert len(set(keys.tolist())) == 5
    assert len(set(average_keys(None, some, steps).tolist())) == 4


def test_points_of_one_key_share_a_law() -> None:
    steps = np.full(3, 4)
    found = averaged(source(LogNormal, *[(0.2, 0.0)] * 3), None, steps, np.zeros(3))
    again = mean_of(source(LogNormal, (0.2, 0.0)), 4)
    assert found.source is not None
    assert again.source is not None
    assert found.source.law is again.source.law
    assert found.source.shape == pytest.approx(np.array([[0.1] * 3, [0.0] * 3]))
    assert found.mean.tolist() == [1, 1, 1]


def test_points_of_several_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="do not share"):
        averaged(source(Weibull, (0.2, 0), (0.3, 0)), None, np.array([4, 4]), np.zeros(2))


@pytest.mark.parametrize(
    ("law", "given_spikes"),
    [(source(LogNormal, (0.2, 0)), None), (source(Normal, (0.2, 0)), spikes(0.1, 2)), (None, None)],
)
def test_other_autocorrelated_steps_are_refused(
    law: Source | None, given_spikes: Spikes | None
) -> None:
    with pytest.raises(ValueError, match="autocorrelation"):
        mean_of(law, 4, given_spikes, 0.5)


def drawn(law: Source | None, some: tuple[float, float], size: tuple[int, ...]) -> Floats:
    """Factors as scipy and numpy draw them."""
    rng = np.random.default_rng(11)
    x = np.ones(size)
    if law is not None:
        cv = law.shape[0, 0]
        z = rng.standard_normal(size)
        draw: dict[object, Callable[[], Floats]] = {
            Normal: lambda: 1 + cv * z,
            LogNormal: lambda: np.exp(np.sqrt(np.log1p(cv**2)) * z) / np.sqrt(1 + cv**2),
            Gamma: lambda: rng.gamma(cv**-2, cv**2, size),
            Exponential: lambda: 1 - cv + cv * rng.exponential(size=size),
            Weibull: lambda: rng.exponential(size=size),
            Pareto: lambda: pareto(rng, cv, size),
        }
        x = np.interp(rng.random(size), *table(law)) if law.law not in draw else draw[law.law]()
    slower: Floats = np.where(rng.random(size) < some[0], some[1] * x, x)
    return slower


def pareto(rng: np.random.Generator, cv: float, size: tuple[int, ...]) -> Floats:
    power = 1 + np.sqrt(1 + cv**-2)
    x: Floats = (power - 1) / power * (1 + rng.pareto(power, size))
    return x


def table(law: Source) -> tuple[Floats, Floats]:
    """Of TABLE, over its mean."""
    assert law.law is table_of(TABLE)
    values = np.array(TABLE)
    return np.linspace(0, 1, len(values)), values / ((values[1:] + values[:-1]) / 2).mean()


BRUTE: Sequence[tuple[Source | None, tuple[float, float]]] = [
    (source(LogNormal, (0.5, 0)), (0.0, 1.0)),
    (source(Weibull, (1.0, 0)), (0.0, 1.0)),
    (source(Pareto, (0.3, 0)), (0.0, 1.0)),
    (source(table_of(TABLE), (0, 0)), (0.0, 1.0)),
    (source(table_of(TABLE), (0, 0)), (0.1, 1.5)),
    (source(Normal, (0.05, 0)), (0.01, 2.0)),
    (source(LogNormal, (0.05, 0)), (0.02, 3.0)),
    (source(Gamma, (0.3, 0)), (0.01, 2.0)),
    (source(LogNormal, (0.4, 0)), (0.02, 2.0)),
    (source(Pareto, (0.2, 0)), (0.05, 2.0)),
    (source(Exponential, (0.5, 0)), (0.05, 3.0)),
    (None, (0.02, 2.0)),
]


@pytest.mark.parametrize(("law", "some"), BRUTE)
@pytest.mark.parametrize("steps", [2, 10])
def test_the_slowest_of_drawn_means(
    law: Source | None, some: tuple[float, float], steps: int
) -> None:
    num_gpus, rounds = 64, 1500
    with_spikes = spikes(*some) if some[0] > 0 else None
    found = mean_of(law, steps, with_spikes)
    maxima = drawn(law, some, (rounds, steps, num_gpus)).mean(axis=1).max(axis=1)
    error = maxima.std() / np.sqrt(rounds)
    assert abs(slowest(num_gpus, found).mean[0] - maxima.mean()) < 4 * error
    if law is not None:
        # Without a factor there are but few values.
        median = slowest(num_gpus, found).quantiles[0, 0]
        assert abs((maxima < median).mean() - 0.5) < 4 * 0.5 / np.sqrt(rounds)


@given(
    law=st.sampled_from([Normal, LogNormal, Gamma, Exponential, Weibull, Pareto]),
    cv=st.sampled_from([0.01, 0.1, 0.3]),
    steps=st.integers(2, 40),
    num_gpus=st.sampled_from([2.0, 64.0, 1e6]),
)
@settings(max_examples=25)
def test_more_steps_are_never_worse(law: Law, cv: float, steps: int, num_gpus: float) -> None:
    one = source(law, (cv, 1.0))
    fewer = slowest(num_gpus, mean_of(one, steps)).mean[0]
    more = slowest(num_gpus, mean_of(one, steps + 1)).mean[0]
    single = slowest(num_gpus, mean_of(one, 1)).mean[0]
    assert 1 <= more <= fewer <= single


@pytest.mark.parametrize("steps", [2, 9, 100, 100_000])
@pytest.mark.parametrize(
    ("law", "some"),
    [
        (source(LogNormal, (1.0, 0)), None),
        (source(Weibull, (0.4, 0)), None),
        (source(Pareto, (0.3, 0)), None),
        (source(table_of(TABLE), (0, 0)), None),
        (source(Normal, (0.1, 0)), spikes(0.05, 1.5)),
    ],
)
def test_mean_and_variance_are_kept(law: Source, some: Spikes | None, steps: int) -> None:
    found = mean_of(law, steps, some).source
    assert found is not None
    one = Groups(found.law, np.ones((1, 1)), np.ones((1, 1)), found.shape)
    mean, variance = moments_of(one)
    assert mean[0] == pytest.approx(1, abs=2e-9)
    assert np.sqrt(variance[0]) == pytest.approx(found.shape[0, 0], rel=2e-4)


@pytest.mark.parametrize("law", [LogNormal, Weibull, Pareto, table_of(TABLE)])
def test_the_rest_of_the_model_takes_the_law(law: Law) -> None:
    cv = 0.25
    found = mean_of(source(law, (cv, 0.0)), 10)
    plain = fleet_of(64, found)
    alone = slowest(64, found)
    assert pooled_slowest(plain).mean == pytest.approx(alone.mean, rel=1e-12)
    moments = slowest_moments(plain)
    assert moments.variance == pytest.approx(alone.variance, rel=1e-6)
    for fleet in (plain, fleet_of(64, found, persistent=("normal", 0.02))):
        spread = spread_of(
            fleet,
            seed=np.array([1]),
            draws=np.array([256]),
            num_steps=np.array([1e5]),
            window_hours=np.array([720.0]),
        )
        assert (np.diff(spread.quantiles) > 0).all()
        assert spread.mean == pytest.approx(pooled_slowest(fleet).mean, rel=3e-3)


@pytest.mark.parametrize(
    ("law", "some"),
    [
        (source(LogNormal, (0.3, 0)), (0.0, 1.0)),
        (source(Normal, (0.05, 0)), (0.02, 2.0)),
        (source(table_of(TABLE), (0, 0)), (0.0, 1.0)),
    ],
)
def test_lasting_factors_times_drawn_means(law: Source, some: tuple[float, float]) -> None:
    num_gpus, steps, rounds = 64, 10, 2000
    found = mean_of(law, steps, spikes(*some) if some[0] > 0 else None)
    lasting = 1 + 0.03 * np.random.default_rng(4).standard_normal((rounds, num_gpus))
    maxima = (drawn(law, some, (rounds, steps, num_gpus)).mean(axis=1) * lasting).max(axis=1)
    fleet = fleet_of(num_gpus, found, persistent=("normal", 0.03))
    error = maxima.std() / np.sqrt(rounds)
    assert abs(pooled_slowest(fleet).mean[0] - maxima.mean()) < 4 * error


def test_a_single_gpu_takes_the_mean_with_its_spikes() -> None:
    found = mean_of(source(Normal, (0.05, 0)), 10, spikes(0.1, 3.0))
    assert found.spikes is None
    assert pooled_slowest(fleet_of(1, found)).mean[0] == pytest.approx(1.2, rel=1e-12)


def test_too_many_spikes_beside_a_heavy_tail_are_refused() -> None:
    with pytest.raises(ValueError, match=r"so heavy a tail .* in 1000 steps"):
        mean_of(source(Pareto, (0.05, 0)), 1000, spikes(0.1, 3.0))


@pytest.mark.parametrize("cv", [2e-7, 1e-3])
def test_rare_spikes_far_from_a_narrow_factor(cv: float) -> None:
    # A round of 64 GPUs has a spike with 1 - (1 - p)^(64 H); two in it hardly ever.
    steps, probability, slowdown = 6, 1e-6, 11.0
    found = slowest(64, mean_of(source(Normal, (cv, 0)), steps, spikes(probability, slowdown)))
    hit = 64 * steps * probability
    without = 1 + cv / np.sqrt(steps) * 2.343733
    expected = without * (1 - hit) + hit * (1 + (slowdown - 1) / steps)
    assert found.mean[0] == pytest.approx(expected, abs=3e-6 if cv < 1e-6 else 1e-5)


def test_which_points_are_known() -> None:
    steps = np.array([1, 10, 1000, 1000, 1000])
    some = Spikes(
        probability=np.array([0.1, 0.1, 0.1, 1e-3, 0.1]), slowdown=np.array([3.0, 3, 3, 3, 1.01])
    )
    heavy = source(Pareto, *[(0.05, 0.0)] * 5)
    assert are_known(heavy, some, steps).tolist() == [True, True, False, True, True]
    assert are_known(source(Gamma, *[(0.05, 0.0)] * 5), some, steps).all()
    assert are_known(heavy, None, steps).all()
    assert are_known(None, some, steps).all()


def test_exponential_steps_are_erlang() -> None:
    # The exact maximum of 8 means of 3 by scipy.
    x = np.linspace(0, 30, 300_001)
    below = stats.gamma(3, scale=1 / 3).cdf(x) ** 8
    expected = 30 - np.trapezoid(below, x)
    found = slowest(8, mean_of(source(Exponential, (1.0, 0.0)), 3)).mean[0]
    assert found == pytest.approx(expected, rel=1e-8)
