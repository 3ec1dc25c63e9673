"""The slowest GPU against brute-force quadrature, closed forms, SciPy and plain sampling."""

import numpy as np
import pytest
from scipy import stats

from service.model.distributions import EMPIRICAL, FAMILIES, law_of
from service.model.slowest import barrier
from service.model.slowest.barrier import PROBABILITIES, Groups, Slowest, moments_of, slowest_of
from tests.model.reference import (
    LARGEST_CVS,
    Factor,
    Fleet,
    expected_slowest,
    log_cdf_of_slowest,
    quantile_of_slowest,
    random_fleets,
    variance_of_slowest,
)

# A family and, for a shifted gamma, its skewness: like the exponential's, near 0, infinite at the
# smallest value.
Kind = tuple[str, float]
KINDS: list[Kind] = [
    *((name, 0.0) for name in FAMILIES[1:EMPIRICAL] if name != "shifted_gamma"),
    ("shifted_gamma", 0.1),
    ("shifted_gamma", 4.0),
]
SLOW = {"gamma", "shifted_gamma"}


def groups_of(kind: Kind, cases: list[tuple[float, list[tuple[float, float]]]]) -> Groups:
    fleets = np.array([fleet for _, fleet in cases])
    return Groups(
        law=law_of(FAMILIES.index(kind[0])),
        num_gpus=fleets[:, :, 0].T.copy(),
        mean=fleets[:, :, 1].T.copy(),
        shape=np.array([[cv for cv, _ in cases], [kind[1]] * len(cases)]),
    )


def slowest(kind: Kind, cases: list[tuple[float, list[tuple[float, float]]]]) -> Slowest:
    return slowest_of(groups_of(kind, cases))


def cvs_of(kind: Kind, *cvs: float) -> list[float]:
    """Those that the family allows."""
    name, skew = kind
    largest = min(skew / 2, 1) if name == "shifted_gamma" else LARGEST_CVS.get(name, 1)
    return [cv for cv in cvs if cv <= largest]


def quantile_error(kind: Kind, cv: float, fleet: Fleet, x: float, p: float) -> float:
    """Relative error of x, by one Newton step of the reference."""
    factor = Factor(kind[0], cv, kind[1])
    step = 1e-5 * cv * x
    at = np.array([x - step, x, x + step])
    before, here, after = np.log(-log_cdf_of_slowest(factor, fleet, at))
    return float(abs((here - np.log(-np.log(p))) / ((after - before) / (2 * step)) / x))


@pytest.mark.parametrize("comparable", [False, True])
@pytest.mark.parametrize("num_kinds", [1, 2, 4, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_mean_and_quantiles_of_random_fleets(kind: Kind, num_kinds: int, comparable: bool) -> None:  # noqa: FBT001
    name, skew = kind
    num_fleets = 3 if name in SLOW else 8
    cases = random_fleets(
        name, num_fleets, num_kinds, comparable=comparable, seed=num_kinds, skew=skew
    )
    found = slowest(kind, cases)
    means = np.array([expected_slowest(name, cv, fleet, skew) for cv, fleet in cases])
    np.testing.assert_allclose(found.mean, means, rtol=2e-9)
    errors = [
        quantile_error(kind, cv, fleet, found.quantiles[row, column], p)
        for row, (cv, fleet) in enumerate(cases)
        for column, p in enumerate(PROBABILITIES)
    ]
    assert max(errors) < 2e-9


@pytest.mark.parametrize("num_kinds", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_variances_of_random_fleets(kind: Kind, num_kinds: int) -> None:
    name, skew = kind
    cases = random_fleets(name, 4, num_kinds, comparable=True, seed=8, skew=skew)
    if name == "pareto":
        # With a power near 2 no rule in reach knows the variance to check it.
        cases = [(min(cv, 0.6), fleet) for cv, fleet in cases]
    mean, variance = moments_of(groups_of(kind, cases))
    np.testing.assert_allclose(mean, slowest(kind, cases).mean, rtol=2e-9)
    wanted = [variance_of_slowest(name, cv, fleet, skew) for cv, fleet in cases]
    np.testing.assert_allclose(variance, wanted, rtol=1e-7)


@pytest.mark.parametrize("cv", [0.3, 1.0, 3.0])
def test_one_pareto_has_its_own_variance(cv: float) -> None:
    mean, variance = moments_of(groups_of(("pareto", 0), [(cv, [(1.0, 1.25)])]))
    assert mean[0] == pytest.approx(1.25, rel=1e-9)
    assert variance[0] == pytest.approx((1.25 * cv) ** 2, rel=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_against_brents_method(kind: Kind) -> None:
    name, skew = kind
    cases = random_fleets(name, 4, 3, comparable=True, seed=5, skew=skew)
    found = slowest(kind, cases)
    wanted = [
        [quantile_of_slowest(name, cv, fleet, p, skew) for p in PROBABILITIES]
        for cv, fleet in cases
    ]
    np.testing.assert_allclose(found.quantiles, wanted, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_has_closed_quantiles(kind: Kind) -> None:
    sizes = [1.0, 2, 3, 8, 64, 1024, 16_384, 131_072, 1e7]
    for cv in cvs_of(kind, 0.002, 0.05, 0.3, 1.0, 3.0):
        found = slowest(kind, [(cv, [(size, 1.0)]) for size in sizes])
        law = Factor(kind[0], cv, kind[1]).law
        wanted = [[law.isf(-np.expm1(np.log(p) / size)) for p in PROBABILITIES] for size in sizes]
        np.testing.assert_allclose(found.quantiles, wanted, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_one_gpu_has_its_own_mean_exactly(kind: Kind) -> None:
    cvs = cvs_of(kind, *np.linspace(0.001, 1, 50).tolist())
    alone = slowest(kind, [(cv, [(1.0, 1.0)]) for cv in cvs])
    assert alone.mean.tolist() == [1.0] * len(cvs)
    slow = slowest(kind, [(cv, [(0.0, 1.0), (1.0, 1.25)]) for cv in cvs])
    assert slow.mean.tolist() == [1.25] * len(cvs)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_is_at_least_that_of_every_kind(kind: Kind) -> None:
    # One GPU at half speed is all but surely the slowest: the expectation is 2 and a few digits.
    cvs = np.array(cvs_of(kind, *np.linspace(1e-6, 0.1, 60).tolist()))
    found = slowest(kind, [(cv, [(64.0, 1.0), (1.0, 2.0)]) for cv in cvs.tolist()])
    assert 2 <= found.mean.min() < 2 * (1 + 1e-13)
    # A tail that falls as slowly as these two reaches twice the mean more often.
    if kind[0] != "pareto" and kind[1] != 4:
        np.testing.assert_allclose(found.mean[cvs < 0.03], 2, rtol=2e-9)


def test_two_normals_have_a_known_maximum() -> None:
    # E[max of two standard normals] = 1 / sqrt(pi)
    found = slowest(("normal", 0), [(0.1, [(2.0, 1.0)])])
    assert found.mean[0] == pytest.approx(1 + 0.1 / np.sqrt(np.pi), rel=1e-11)


def test_exponentials_have_harmonic_maxima() -> None:
    # A gamma of cv 1 is exponential: E[max of n] = 1 + 1/2 + … + 1/n
    sizes = [2, 8, 64, 1024]
    found = slowest(("gamma", 0), [(1.0, [(float(size), 1.0)]) for size in sizes])
    harmonic = [float(np.sum(1 / np.arange(1, size + 1))) for size in sizes]
    np.testing.assert_allclose(found.mean, harmonic, rtol=1e-9)


@pytest.mark.parametrize(("size", "cv"), [(5, 0.5), (40, 0.25)])
def test_gamma_agrees_with_the_order_statistics_of_scipy(size: int, cv: float) -> None:
    gamma = stats.make_distribution(stats.gamma)
    largest = stats.order_statistic(gamma(a=1 / cv**2), r=size, n=size)
    found = slowest(("gamma", 0), [(cv, [(float(size), 1.0)])])
    assert found.mean[0] == pytest.approx(largest.mean() * cv**2, rel=1e-8)
    wanted = [largest.icdf(p) * cv**2 for p in PROBABILITIES]
    np.testing.assert_allclose(found.quantiles[0], wanted, rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_plain_sampling_agrees_within_its_standard_error(kind: Kind) -> None:
    cv, num_steps = 0.05, 20_000
    fleet = [(200.0, 1.0), (3.0, 1 / 0.8)]
    rng = np.random.default_rng(20_261_129)
    law = Factor(kind[0], cv, kind[1]).law
    steps = np.maximum(
        law.rvs((num_steps, 200), random_state=rng).max(axis=1),
        law.rvs((num_steps, 3), random_state=rng).max(axis=1) / 0.8,
    )
    found = slowest(kind, [(cv, fleet)])
    standard_error = steps.std() / np.sqrt(num_steps)
    assert abs(found.mean[0] - steps.mean()) < 4 * standard_error
    for p, quantile in zip(PROBABILITIES, found.quantiles[0], strict=True):
        share = np.mean(steps <= quantile)
        assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / num_steps)


@pytest.mark.parametrize("kind", KINDS)
def test_absent_kinds_count_for_nothing(kind: Kind) -> None:
    alone = slowest(kind, [(0.05, [(50.0, 1.25)])])
    beside = slowest(kind, [(0.05, [(0.0, 1.0), (50.0, 1.25), (0.0, 1.0)])])
    np.testing.assert_allclose(beside.mean, alone.mean, rtol=1e-12)
    np.testing.assert_allclose(beside.quantiles, alone.quantiles, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cv", [1e-12, 1e-9, 1e-6, 1e-4])
def test_tiny_spreads_keep_their_digits(kind: Kind, cv: float) -> None:
    # For small cv three families are 1 + cv z; exponential and Pareto are 1 + cv (e - 1), e of mean
    # 1; a Weibull is 1 + cv sqrt(6) / pi times a Gumbel variable above its mean; a shifted gamma
    # keeps its form.
    size = 1024.0
    name, skew = kind
    like, of_cv = {
        "exponential": ("exponential", 1e-2),
        "pareto": ("exponential", 1e-2),
        "weibull": ("weibull", 1e-4),
        "shifted_gamma": ("shifted_gamma", 0.04),
    }.get(name, ("normal", 0.1))
    large = expected_slowest(like, of_cv, [(size, 1.0)], skew)
    found = slowest(kind, [(cv, [(size, 1.0)])])
    excess = cv * (large - 1) / of_cv
    assert found.mean[0] - 1 == pytest.approx(excess, rel=max(20 * cv, 1e-3), abs=1e-13)


def test_kinds_that_take_over_between_two_nodes() -> None:
    # A million GPUs of tiny relative spread against one far slower: the first kind's rise is a
    # step within a node's distance.
    cases = [(0.3, [(1e7, 1.0), (1.0, mean)]) for mean in np.linspace(1.5, 4.0, 41).tolist()] + [
        (0.001, [(1e7, 1.0), (1.0, mean)]) for mean in np.linspace(1, 1.01, 41).tolist()
    ]
    found = slowest(("normal", 0), cases)
    means = [expected_slowest("normal", cv, fleet) for cv, fleet in cases]
    np.testing.assert_allclose(found.mean, means, rtol=2e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_point_does_not_depend_on_its_neighbours(kind: Kind) -> None:
    cases = random_fleets(kind[0], 12, 2, comparable=True, seed=9, skew=kind[1])
    together = slowest(kind, cases)
    for row, case in enumerate(cases):
        alone = slowest(kind, [case])
        np.testing.assert_allclose(alone.mean[0], together.mean[row], rtol=1e-12)
        np.testing.assert_allclose(alone.quantiles[0], together.quantiles[row], rtol=1e-12)


def test_without_steps_the_guess_is_close(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = random_fleets("lognormal", 30, 2, comparable=False, seed=1)
    found = slowest(("lognormal", 0), cases)
    monkeypatch.setattr(barrier, "MAX_STEPS", 1)
    np.testing.assert_allclose(
        slowest(("lognormal", 0), cases).quantiles, found.quantiles, rtol=1e-6
    )
