import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from service.model.distributions import (
    FAMILIES,
    LAWS,
    MAX_CV_NORMAL,
    Distribution,
    Floats,
    Gamma,
    LogNormal,
    Normal,
    law_of,
    log_cdf,
)
from tests.model.reference import Factor

CVS = (0.001, 0.05, 0.14, 0.3, 0.7, 1.0)
EVERY = [(law, cv) for law in LAWS for cv in CVS if law is not Normal or cv <= MAX_CV_NORMAL]


def kind(law: type[Distribution]) -> str:
    return str(law.__struct_config__.tag)


def at(cv: float) -> Floats:
    """The shape of one point."""
    return np.full((1, 1), cv)


def array(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


def test_families_are_the_tags_of_the_union() -> None:
    assert FAMILIES == ("none", "normal", "lognormal", "gamma")
    assert law_of(1) is Normal
    assert law_of(2) is LogNormal
    assert law_of(3) is Gamma


@pytest.mark.parametrize("code", [0, 4, -1])
def test_a_code_without_a_law_is_refused(code: int) -> None:
    with pytest.raises(ValueError, match=f"code {code} is no distribution"):
        law_of(code)


@pytest.mark.parametrize("law", LAWS)
def test_documents_name_the_kind(law: type[Distribution]) -> None:
    document = {"kind": kind(law), "cv": 0.25}
    assert msgspec.convert(document, Distribution) == law(cv=0.25)
    assert msgspec.to_builtins(law(cv=0.25)) == document


@pytest.mark.parametrize("document", [{"cv": 0.1}, {"kind": "normal"}, {"kind": "cauchy", "cv": 0}])
def test_other_documents_are_refused(document: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(document, Distribution)


@pytest.mark.parametrize("cv", [-0.01, 1.01, float("nan"), float("inf")])
@pytest.mark.parametrize("law", LAWS)
def test_cv_is_bounded(law: type[Distribution], cv: float) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"kind": kind(law), "cv": cv}, Distribution)


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_upper_quantiles_are_scipys(law: type[Distribution], cv: float) -> None:
    q = np.array([0.999, 0.5, 0.1, 1e-3, 1e-8, 1e-12, 1e-18])
    expected = Factor(kind(law), cv).law.isf(q)
    assert law.upper_quantile(q, at(cv)) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_lower_quantiles_take_logarithms(law: type[Distribution], cv: float) -> None:
    p = np.array([1e-11, 1e-5, 0.3, 0.5, 0.9])
    expected = Factor(kind(law), cv).law.ppf(p)
    assert law.lower_quantile(np.log(p), at(cv)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_lower_quantiles_near_one_are_upper_ones(law: type[Distribution], cv: float) -> None:
    log_p = np.array([-1e-3, -1e-9, -1e-15])
    expected = law.upper_quantile(-np.expm1(log_p), at(cv))
    assert law.lower_quantile(log_p, at(cv)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_log_distribution_functions_are_scipys(law: type[Distribution], cv: float) -> None:
    ref = Factor(kind(law), cv).law
    x = ref.isf(np.array([0.9999, 0.9, 0.5, 0.1, 1e-3, 1e-6, 1e-9]))
    expected = np.log1p(-ref.sf(x))
    assert log_cdf(law, x, at(cv)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_rates_are_the_tail_itself_where_it_is_thin(law: type[Distribution], cv: float) -> None:
    ref = Factor(kind(law), cv).law
    x = ref.isf(np.array([0.5, 1e-3, 1e-9, 1e-30]))
    assert law.rate(x, at(cv)) == pytest.approx(-np.log1p(-ref.sf(x)), rel=1e-11)


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_rates_stay_finite_below_everything(law: type[Distribution], cv: float) -> None:
    rate = law.rate(array(-1.0, 0.0, 1e-300), at(1e-9) if law is Normal else at(cv))
    assert rate == pytest.approx(-np.log(2.0**-53), rel=1e-12)


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_scores_are_normal(law: type[Distribution], cv: float) -> None:
    z = np.array([[-6.0, -1], [-0.0, 1], [3, 8]])
    two = np.full((2, 2), [[cv, cv / 2], [7, 7]])
    x = law.at_score(z, two)
    for point in range(2):
        one = at(two[0, point])
        upper = law.upper_quantile(stats.norm.sf(z[:, point]), one)
        assert x[:, point] == pytest.approx(upper, rel=1e-7)
    assert law.rate(x, two) == pytest.approx(-stats.norm.logcdf(z), rel=2e-7)


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_slopes_are_density_over_distribution_function(law: type[Distribution], cv: float) -> None:
    ref = Factor(kind(law), cv).law
    x = ref.isf(np.array([0.999, 0.5, 1e-3, 1e-8]))
    v = law.warp(1.3 * x)
    _, slope = law.rate_and_slope(v, array(1.3), at(cv))
    dx_dv = law.share_below(v, np.zeros_like(v))
    assert -slope == pytest.approx(ref.pdf(x) / ref.cdf(x) / 1.3 * dx_dv, rel=1e-4)


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_rates_at_nodes_are_those_of_points(law: type[Distribution], cv: float) -> None:
    rng = np.random.default_rng(1)
    mean, num_gpus = rng.uniform(1, 3, 50), rng.uniform(1, 1000, 50)
    x = mean * law.upper_quantile(rng.uniform(1e-9, 0.999, (30, 50)), at(cv))
    v = law.warp(x)
    total = np.full_like(v, 0.25)
    law.add_rate(v, mean, np.full((1, 50), cv), num_gpus, total)
    expected = [
        [num_gpus[i] * -log_cdf(law, array(x[k, i] / mean[i]), at(cv))[0] for i in range(50)]
        for k in range(30)
    ]
    assert total - 0.25 == pytest.approx(np.array(expected), rel=1e-7, abs=1e-12)


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_warped_places_come_back(law: type[Distribution], cv: float) -> None:
    x = law.upper_quantile(np.linspace(0.01, 0.99, 20), at(cv))
    assert law.unwarp(law.warp(x)) == pytest.approx(x, rel=1e-14)


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_mean_is_one_and_cv_is_cv(law: type[Distribution], cv: float) -> None:
    roots, weights = np.polynomial.legendre.leggauss(100)
    # Uniform numbers crowded at both ends: u = s³ (10 - 15 s + 6 s²) of s in 0 … 1.
    s = (roots + 1) / 2
    u_weight = weights / 2 * 30 * s**2 * (1 - s) ** 2
    q = s**3 * (10 - 15 * s + 6 * s * s)
    x = law.upper_quantile(q, at(cv))
    assert np.sum(u_weight * x) == pytest.approx(1, rel=1e-6)
    assert np.sum(u_weight * x * x) - 1 == pytest.approx(cv**2, rel=2e-3)


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
