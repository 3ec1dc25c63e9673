import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from service.model.distributions import (
    EMPIRICAL,
    FAMILIES,
    LAWS,
    Distribution,
    Empirical,
    Exponential,
    Floats,
    Gamma,
    Law,
    LogNormal,
    Normal,
    Pareto,
    ShiftedGamma,
    Table,
    Weibull,
    law_and_shape,
    law_of,
    log_cdf,
    sample,
    table_of,
)
from tests.model.reference import LARGEST_CVS, Factor

# Gauss and Legendre; found anew in every test they would take seconds
ROOTS, WEIGHTS = np.polynomial.legendre.leggauss(400)
CVS = (0.001, 0.05, 0.14, 0.3, 0.7, 1.0, 3.0)
SHIFTED = [(0.0004, 0.001), (0.15, 0.3), (0.02, 0.3), (0.1, 2.0), (1.0, 2.0), (0.05, 4.0)]
EVERY = [
    (kind, cv, 0.0)
    for kind in FAMILIES[1:EMPIRICAL]
    for cv in CVS
    if kind != "shifted_gamma" and cv <= LARGEST_CVS.get(kind, 1.0)
] + [("shifted_gamma", cv, skew) for cv, skew in SHIFTED]
SMALLEST = [
    ("exponential", 0.4, 0.0),
    ("pareto", 0.4, 0.0),
    ("shifted_gamma", 0.1, 2.0),
    ("weibull", 0.4, 0.0),
    ("gamma", 0.4, 0.0),
    ("lognormal", 0.4, 0.0),
]


def below(skew: float) -> float:
    """The largest upper tail that is asked for.

    A density that is infinite at its smallest value has a thousandth of itself within the last
    bit of that value.
    """
    return 0.9 if skew == 4 else 0.9999


def law(kind: str) -> Law:
    return law_of(FAMILIES.index(kind))


def at(cv: float, skew: float = 0.0) -> Floats:
    """The shape of one point."""
    return np.array([[cv], [skew]])


def array(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


def document(kind: str, cv: float) -> dict[str, object]:
    return {"kind": kind, "cv": cv} | ({"skew": 0.5} if kind == "shifted_gamma" else {})


def test_codes_never_change() -> None:
    assert FAMILIES == (
        "none",
        "normal",
        "lognormal",
        "gamma",
        "shifted_gamma",
        "exponential",
        "weibull",
        "pareto",
        "empirical",
    )
    wanted: tuple[Law, ...] = (
        Normal,
        LogNormal,
        Gamma,
        ShiftedGamma,
        Exponential,
        Weibull,
        Pareto,
    )
    assert wanted == LAWS
    assert all(law_of(code) is one for code, one in enumerate(LAWS, start=1))


@pytest.mark.parametrize("code", [0, 8, 9, -1])
def test_a_code_without_a_law_is_refused(code: int) -> None:
    with pytest.raises(ValueError, match=f"code {code} is no distribution"):
        law_of(code)


def test_a_table_is_the_law_of_an_empirical_source() -> None:
    table = law_of(EMPIRICAL, (1.0, 2.0, 4.0))
    assert isinstance(table, Table)
    assert table is table_of((1.0, 2.0, 4.0))
    assert law_of(1, (1.0, 2.0)) is law_of(1)


def test_declarations_know_their_law_and_shape() -> None:
    assert law_and_shape(Normal(cv=0.1))[0] is Normal
    shifted, shape = law_and_shape(ShiftedGamma(cv=0.1, skew=0.5))
    assert shifted is ShiftedGamma
    assert shape.tolist() == [[0.1], [0.5]]
    table, shape = law_and_shape(Empirical(quantiles=(0.0, 1.0)))
    assert table is table_of((0.0, 1.0))
    assert shape[0, 0] == pytest.approx(1 / np.sqrt(3), rel=1e-14)


@pytest.mark.parametrize("kind", FAMILIES[1:EMPIRICAL])
def test_documents_name_the_kind(kind: str) -> None:
    sent = document(kind, 0.25)
    declared = msgspec.convert(sent, Distribution)
    assert law_and_shape(declared)[0] is law(kind)
    assert msgspec.to_builtins(declared) == sent


@pytest.mark.parametrize(
    "sent",
    [
        {"cv": 0.1},
        {"kind": "normal"},
        {"kind": "cauchy", "cv": 0},
        {"kind": "shifted_gamma", "cv": 0.1},
        {"kind": "shifted_gamma", "cv": 0.1, "skew": 0},
        {"kind": "shifted_gamma", "cv": 0.1, "skew": 4.1},
        {"kind": "exponential", "cv": 0.1, "skew": 2},
    ],
)
def test_other_documents_are_refused(sent: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(sent, Distribution)


@pytest.mark.parametrize("cv", [-0.01, 3.01, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", FAMILIES[1:EMPIRICAL])
def test_cv_is_bounded(kind: str, cv: float) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(document(kind, cv), Distribution)


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_upper_quantiles_are_scipys(kind: str, cv: float, skew: float) -> None:
    q = np.array([0.999, 0.5, 0.1, 1e-3, 1e-8, 1e-12, 1e-18])
    expected = Factor(kind, cv, skew).law.isf(q)
    assert law(kind).upper_quantile(q, at(cv, skew)) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_lower_quantiles_take_logarithms(kind: str, cv: float, skew: float) -> None:
    p = np.array([1e-11, 1e-5, 0.3, 0.5, 0.9])
    expected = Factor(kind, cv, skew).law.ppf(p)
    assert law(kind).lower_quantile(np.log(p), at(cv, skew)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_lower_quantiles_near_one_are_upper_ones(kind: str, cv: float, skew: float) -> None:
    log_p = np.array([-1e-3, -1e-9, -1e-15])
    expected = law(kind).upper_quantile(-np.expm1(log_p), at(cv, skew))
    assert law(kind).lower_quantile(log_p, at(cv, skew)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_log_distribution_functions_are_scipys(kind: str, cv: float, skew: float) -> None:
    ref = Factor(kind, cv, skew).law
    x = ref.isf(np.array([below(skew), 0.9, 0.5, 0.1, 1e-3, 1e-6, 1e-9]))
    expected = np.log1p(-ref.sf(x))
    assert log_cdf(law(kind), x, at(cv, skew)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_rates_are_the_tail_itself_where_it_is_thin(kind: str, cv: float, skew: float) -> None:
    ref = Factor(kind, cv, skew).law
    x = ref.isf(np.array([0.5, 1e-3, 1e-9, 1e-30]))
    # At 1e-30 and a cv of 0.001 the last bit of x moves the tail by 1e-11 already.
    rel = 1e-9 if skew == 0.001 else 1e-11
    assert law(kind).rate(x, at(cv, skew)) == pytest.approx(-np.log1p(-ref.sf(x)), rel=rel)


@pytest.mark.parametrize(("kind", "cv", "skew"), SMALLEST)
def test_rates_stay_finite_below_everything(kind: str, cv: float, skew: float) -> None:
    rate = law(kind).rate(array(-1.0, 0.0, 1e-300), at(cv, skew))
    assert rate == pytest.approx(-np.log(2.0**-53), rel=1e-12)
    assert Normal.rate(array(-1.0), at(0.1)) == pytest.approx(-np.log(2.0**-53), rel=1e-12)


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_rates_of_nothing_above_are_zero(kind: str, cv: float, skew: float) -> None:
    rate = law(kind).rate(array(1e300), at(cv, skew))
    assert 0 <= rate[0] < 1e-300


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_scores_are_normal(kind: str, cv: float, skew: float) -> None:
    z = np.array([[stats.norm.isf(below(skew)), -1], [-0.0, 1], [3, 8], [1, 37]])
    two = np.array([[cv, cv / 2], [skew, skew]])
    x = law(kind).at_score(z, two)
    for point in range(2):
        one = two[:, [point]]
        upper = law(kind).upper_quantile(stats.norm.sf(z[:, point]), one)
        assert x[:, point] == pytest.approx(upper, rel=1e-9)
    rate = law(kind).rate(x, two)
    # The last bit of an x beside 1 is 1e-16 / cv standard deviations.
    assert rate == pytest.approx(-stats.norm.logcdf(z), rel=max(1e-10, 1e-12 / cv))


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_slopes_are_density_over_distribution_function(kind: str, cv: float, skew: float) -> None:
    one, ref = law(kind), Factor(kind, cv, skew).law
    x = ref.isf(np.array([below(skew), 0.5, 1e-3, 1e-8]))
    v = one.warp(1.3 * x)
    _, slope = one.rate_and_slope(v, array(1.3), at(cv, skew))
    dx_dv = one.share_below(v, np.zeros_like(v))
    assert -slope == pytest.approx(ref.pdf(x) / ref.cdf(x) / 1.3 * dx_dv, rel=1e-4)


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_rates_at_nodes_are_those_of_points(kind: str, cv: float, skew: float) -> None:
    rng = np.random.default_rng(1)
    one, shape = law(kind), np.repeat(at(cv, skew), 50, axis=1)
    mean, num_gpus = rng.uniform(1, 3, 50), rng.uniform(1, 1000, 50)
    x = mean * one.upper_quantile(rng.uniform(1e-9, below(skew), (30, 50)), shape)
    v = one.warp(x)
    total = np.full_like(v, 0.25)
    one.add_rate(v, mean, shape, num_gpus, total)
    expected = num_gpus * one.rate(x / mean, shape)
    assert total - 0.25 == pytest.approx(expected, rel=1e-7, abs=1e-12)
    of_one, _ = one.rate_and_slope(v, mean, shape)
    assert of_one == pytest.approx(expected / num_gpus, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_warped_places_come_back(kind: str, cv: float, skew: float) -> None:
    x = law(kind).upper_quantile(np.linspace(0.01, 0.99, 20), at(cv, skew))
    assert law(kind).unwarp(law(kind).warp(x)) == pytest.approx(x, rel=1e-14)


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_mean_is_one_and_cv_is_cv(kind: str, cv: float, skew: float) -> None:
    # In the normal score, where every tail falls faster than an exponential.
    z = 37 * ROOTS
    x = law(kind).at_score(z, at(cv, skew))
    weight = 37 * WEIGHTS * stats.norm.pdf(z)
    assert np.sum(weight * x) == pytest.approx(1, rel=1e-10)
    assert np.sum(weight * (x - 1) ** 2) == pytest.approx(cv**2, rel=1e-3 if cv > 1 else 1e-7)
    if kind == "shifted_gamma":
        assert np.sum(weight * (x - 1) ** 3) == pytest.approx(skew * cv**3, rel=1e-6)


@pytest.mark.parametrize("kind", FAMILIES[1:EMPIRICAL])
def test_samples_follow_the_law(kind: str) -> None:
    cv, skew = 0.2, 0.8
    drawn = sample(law(kind), np.random.default_rng(3), at(cv, skew), (20_000, 1)).ravel()
    assert stats.kstest(drawn, Factor(kind, cv, skew).law.cdf).pvalue > 1e-3


@given(
    kind=st.sampled_from(FAMILIES[1:EMPIRICAL]),
    cv=st.floats(1e-6, 0.3),
    skew=st.floats(0.6, 4),
    scores=st.tuples(st.floats(-6, 8), st.floats(1e-3, 3)),
)
def test_larger_scores_are_larger_factors(
    kind: str, cv: float, skew: float, scores: tuple[float, float]
) -> None:
    z = array(scores[0], sum(scores))
    lower, upper = law(kind).at_score(z, at(cv, skew))
    assert upper > lower or (upper == lower and z[0] < -5)
    smaller, larger = law(kind).rate(array(upper, lower), at(cv, skew))
    assert smaller <= larger


@given(st.floats(1e-7, 1.0), st.floats(1e-16, 0.999))
def test_gamma_of_a_small_cv_is_nearly_normal(cv: float, q: float) -> None:
    small = cv * 1e-4
    z = float(stats.norm.isf(q))
    assert Gamma.upper_quantile(array(q), at(small))[0] == pytest.approx(
        1 + small * z + small**2 * (z * z - 1) / 3, abs=small**2 * 1e-2 + 1e-15
    )
    rate, slope = Gamma.rate_and_slope(Gamma.warp(1 + array(small) * z), array(1.0), at(small))
    normal, normal_slope = Normal.rate_and_slope(1 + array(small) * z, array(1.0), at(small))
    assert rate[0] == pytest.approx(normal[0], rel=3e-2, abs=1e-2)
    assert np.isfinite(slope[0])
    assert slope[0] / 3 == pytest.approx(normal_slope[0], rel=5e-2, abs=1e-2 / small)
