"""The pooled slowest GPU against published values, dense quadrature and exact laws."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from service.model.exchange.lines import Lines
from service.model.fleet import Fleet
from service.model.slowest.barrier import PROBABILITIES, Groups, slowest_of
from service.model.slowest.pooled import pooled_slowest
from tests.model.fleets_for_tests import LAW_OF, Classes, one_fleet, source
from tests.model.pooled_reference import Reference

NORMAL, LOGNORMAL, GAMMA = "normal", "lognormal", "gamma"


def mean_of(classes: Classes, **fields: Any) -> float:
    return float(pooled_slowest(one_fleet(classes, **fields)).mean[0])


def quantiles_of(classes: Classes, **fields: Any) -> list[float]:
    found: list[float] = pooled_slowest(one_fleet(classes, **fields)).quantiles[0].tolist()
    return found


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"node": (NORMAL, 0.04), "transient": (NORMAL, 0.03)}, 1.163968),
        ({"persistent": (NORMAL, 0.04), "transient": (NORMAL, 0.03)}, 1.168033),
        ({"transient": (NORMAL, 0.05)}, 1.1624119800687707),
        ({"transient": (NORMAL, 0.05), "common": (NORMAL, 0.1)}, 1.1624119800687707),
        ({"transient": (LOGNORMAL, 0.14)}, 1.5590131779525078),
        # 1 + 1/2 (1 - (1 - 1e-4)^1024): a spike of half the time, nothing else varies.
        ({"spikes": (1e-4, 1.5)}, 1 + 0.09733620987761848 / 2),
        # The 8th of 1024 from the end.
        ({"transient": (NORMAL, 0.05), "num_backup": 8}, 1 + 0.05 * 2.3928010393),
        ({"persistent": (NORMAL, 0.05), "num_removed": 8}, 1 + 0.05 * 2.3928010393),
        ({"persistent": (NORMAL, 0.05), "num_removed": 1}, 1 + 0.05 * 2.9614727554),
    ],
)
def test_meets_the_published_values(fields: dict[str, Any], expected: float) -> None:
    assert mean_of([(1024, 1.0)], **fields) == pytest.approx(expected, rel=3e-7)


def test_meets_a_published_mixture() -> None:
    found = mean_of([(63, 1.0), (1, 1 / 0.7)], transient=(NORMAL, 0.05))
    assert found == pytest.approx(1.428571783992715, rel=1e-8)


REFERENCES = [
    ({"own": [(NORMAL, 0.04), (NORMAL, 0.03)]}, (1.0, 1.7), 1024),
    ({"own": [(GAMMA, 0.3), (LOGNORMAL, 0.3)]}, (0.2, 60.0), 10),
    ({"own": [(NORMAL, 0.003), (GAMMA, 0.04)]}, (1.05, 1.6), 10**7),
    ({"own": [(NORMAL, 0.02)], "blocks": [((NORMAL, 0.02), 8)]}, (0.98, 1.45), 1024),
    ({"own": [(NORMAL, 0.02)], "blocks": [((GAMMA, 0.008), 8)]}, (0.98, 1.4), 1024),
    ({"own": [(NORMAL, 0.02)], "blocks": [((NORMAL, 0.002), 8)]}, (1.0, 1.4), 1024),
    ({"own": [(NORMAL, 0.02)], "blocks": [((NORMAL, 0.2), 8)]}, (0.5, 3.0), 1024),
    ({"own": [(NORMAL, 0.02)], "blocks": [((NORMAL, 0.02), 2048)]}, (1.0, 1.5), 8192),
    (
        {"own": [(NORMAL, 0.02)], "blocks": [((NORMAL, 0.005), 8)], "spikes": (1e-3, 3.0)},
        (1.0, 4.2),
        1024,
    ),
    (
        {"own": [(NORMAL, 0.02)], "blocks": [((NORMAL, 0.02), 8)], "spikes": (1e-3, 1.05)},
        (0.98, 1.5),
        1024,
    ),
]


def fleet_of(reference: Reference) -> Fleet:
    """The first factor is drawn each step, the second once, that of blocks by node."""
    fields: dict[str, Any] = dict(zip(("transient", "persistent"), reference.own, strict=False))
    for factor, size in reference.blocks:
        fields |= {"node": factor, "gpus_per_node": size}
    return one_fleet([(reference.num_gpus, 1.0)], spikes=reference.spikes, **fields)


@pytest.mark.parametrize(("given_parts", "ends", "num_gpus"), REFERENCES)
def test_agrees_with_dense_quadrature(
    given_parts: dict[str, Any], ends: tuple[float, float], num_gpus: int
) -> None:
    reference = Reference(num_gpus=num_gpus, **given_parts)
    found = pooled_slowest(fleet_of(reference))
    assert found.mean[0] == pytest.approx(reference.mean(*ends), rel=3e-9)
    below = np.exp(-reference.rate(found.quantiles[0]))
    np.testing.assert_allclose(below, PROBABILITIES, atol=2e-8)


def test_a_node_of_replicas_agrees_with_dense_quadrature() -> None:
    blocks = [((NORMAL, 0.02), 4), ((NORMAL, 0.02), 2)]
    reference = Reference(
        num_gpus=64, own=[(NORMAL, 0.02)], blocks=blocks, outer=(8, 12), times=(12, 12)
    )
    fleet = one_fleet(
        [(64, 1.0)],
        transient=(NORMAL, 0.02),
        replica=(NORMAL, 0.02),
        node=(NORMAL, 0.02),
        tensor_parallel_size=4,
    )
    assert pooled_slowest(fleet).mean[0] == pytest.approx(reference.mean(0.9, 1.4), rel=3e-9)


def test_common_multiplies_the_quantiles_only() -> None:
    """P(slowest x C <= t) by scipy over C, for a slowest of its own known law."""
    fields = {"transient": (NORMAL, 0.05), "common": (LOGNORMAL, 0.08)}
    sd = np.sqrt(np.log1p(0.08**2))
    for p, found in zip(PROBABILITIES, quantiles_of([(64, 1.0)], **fields), strict=True):
        share, _ = integrate.quad(
            lambda z, t=found: (
                stats.norm.pdf(z)
                * stats.norm.cdf((t / np.exp(sd * z - sd**2 / 2) - 1) / 0.05) ** 64
            ),
            -9,
            9,
            epsabs=1e-13,
        )
        assert share == pytest.approx(p, abs=1e-8)


def test_a_shared_factor_of_blocks_of_one_is_one_more_of_each_gpu() -> None:
    each = quantiles_of([(64, 1.0)], persistent=(NORMAL, 0.03), transient=(GAMMA, 0.02))
    as_node = quantiles_of(
        [(64, 1.0)], node=(NORMAL, 0.03), transient=(GAMMA, 0.02), gpus_per_node=1
    )
    as_replica = quantiles_of([(64, 1.0)], persistent=(NORMAL, 0.03), replica=(GAMMA, 0.02))
    assert as_node == pytest.approx(each, rel=1e-12)
    assert as_replica == pytest.approx(each, rel=1e-12)


def test_a_node_of_one_replica_shares_both_factors() -> None:
    whole = {"tensor_parallel_size": 8, "transient": (NORMAL, 0.02)}
    both = mean_of([(64, 1.0)], node=(LOGNORMAL, 0.03), replica=(LOGNORMAL, 0.04), **whole)
    cv = np.sqrt((1 + 0.03**2) * (1 + 0.04**2) - 1)
    assert both == pytest.approx(mean_of([(64, 1.0)], node=(LOGNORMAL, cv), **whole), rel=1e-10)


def test_a_last_smaller_node_counts_as_it_is() -> None:
    """20 GPUs by 8: two nodes and a half one, by scipy."""

    def below(t: float, size: int) -> float:
        found, _ = integrate.quad(
            lambda z: stats.norm.pdf(z) * stats.norm.cdf((t / (1 + 0.04 * z) - 1) / 0.03) ** size,
            -9,
            9,
            epsabs=1e-13,
        )
        return float(found)

    fields = {"node": (NORMAL, 0.04), "transient": (NORMAL, 0.03)}
    for p, t in zip(PROBABILITIES, quantiles_of([(20, 1.0)], **fields), strict=True):
        assert below(t, 8) ** 2 * below(t, 4) == pytest.approx(p, abs=1e-8)


def test_between_two_sizes_of_a_fleet_the_last_node_is_between() -> None:
    fields = {"node": (NORMAL, 0.04), "transient": (NORMAL, 0.03)}
    sizes = (20.0, 20.25, 20.5, 21.0)
    smaller, near, middle, larger = (mean_of([(n, 1.0)], **fields) for n in sizes)
    assert smaller < near < middle < larger


def test_slow_gpus_fall_on_random_nodes() -> None:
    """Two slow GPUs of 4 in nodes of 2: both in one node in 1 of 3 placements, by scipy.

    Exact for two classes. Three have expected compositions in the exponent, here of the same GPUs.
    """
    slow, cv_node, cv = 1.2, 0.05, 0.03
    t = np.linspace(0.7, 2.0, 4001)
    z, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    shifted = t[:, np.newaxis] / (1 + cv_node * z)
    nominal = stats.norm.cdf((shifted - 1) / cv)
    slower = stats.norm.cdf((shifted / slow - 1) / cv)
    none, one, two = ((part @ weights) for part in (nominal**2, nominal * slower, slower**2))
    exact = none * two / 3 + one**2 * 2 / 3
    logs = [np.log(np.maximum(below, 1e-300)) for below in (none * two, one**2)]
    averaged = np.exp(logs[0] / 3 + logs[1] * 2 / 3)
    true, expected = (t[0] + integrate.simpson(1 - below, x=t) for below in (exact, averaged))
    fields = {"node": (NORMAL, cv_node), "transient": (NORMAL, cv), "gpus_per_node": 2}
    of_two = mean_of([(2, 1.0), (2, slow)], **fields)
    of_three = mean_of([(1, 1.0), (1, 1.0), (2, slow)], **fields)
    assert of_two == pytest.approx(true, rel=1e-7)
    assert of_three == pytest.approx(expected, rel=1e-7)
    assert 0 < of_three - true < 2e-3


def test_many_slow_gpus_on_many_nodes_without_a_node_factor_are_no_blocks() -> None:
    """So many placements that compositions are expected; the node's factor hardly varies."""
    classes = [(3000, 1.0), (3000, 1.05)]
    found = mean_of(classes, node=(NORMAL, 1e-9), transient=(NORMAL, 0.03))
    assert found == pytest.approx(mean_of(classes, transient=(NORMAL, 0.03)), rel=1e-8)


def test_one_slow_gpu_within_nodes_is_exact() -> None:
    """It is in exactly one node, so nothing is averaged."""
    slow, cv_node, cv = 1.1, 0.05, 0.03
    t = np.linspace(0.7, 2.0, 4001)
    z, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    shifted = t[:, np.newaxis] / (1 + cv_node * z)
    nominal = stats.norm.cdf((shifted - 1) / cv)
    slower = stats.norm.cdf((shifted / slow - 1) / cv)
    below = (nominal**4 @ weights) ** 3 * (nominal**3 * slower @ weights)
    found = mean_of(
        [(15, 1.0), (1, slow)], node=(NORMAL, cv_node), transient=(NORMAL, cv), gpus_per_node=4
    )
    assert found == pytest.approx(t[0] + integrate.simpson(1 - below, x=t), rel=1e-7)


@pytest.mark.parametrize("kind", [NORMAL, GAMMA])
@pytest.mark.parametrize(("num_gpus", "late"), [(64, 1), (64, 32), (10_000, 400)])
def test_a_step_that_leaves_gpus_behind_ends_with_an_order_statistic(
    kind: str, num_gpus: int, late: int
) -> None:
    law = {NORMAL: stats.norm(1, 0.1), GAMMA: stats.gamma(100, scale=0.01)}[kind]
    # The (N - b)-th of N uniforms is a beta.
    rank = stats.beta(num_gpus - late, late + 1)
    found = pooled_slowest(one_fleet([(num_gpus, 1.0)], transient=(kind, 0.1), num_backup=late))
    np.testing.assert_allclose(
        found.quantiles[0], law.ppf(rank.ppf(np.array(PROBABILITIES))), rtol=1e-9
    )
    low, high = (float(rank.ppf(p)) for p in (1e-15, 1 - 1e-12))
    expected, _ = integrate.quad(
        lambda x: float(law.ppf(x) * rank.pdf(x)), low, high, epsabs=0, limit=200
    )
    assert found.mean[0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("late", [3, 80])
def test_classes_leave_their_last_gpus_behind_together(late: int) -> None:
    """P(at most b of three classes exceed), by the convolution of scipy's binomials."""
    classes = [(200, 1.0), (100, 1.04), (90, 1.1)]
    fields = {"transient": (NORMAL, 0.03), "num_backup": late}
    for p, t in zip(PROBABILITIES, quantiles_of(classes, **fields), strict=True):
        exceeding = np.ones(1)
        for count, mean in classes:
            survival = stats.norm.sf((t / mean - 1) / 0.03)
            of_class = stats.binom.pmf(np.arange(count + 1), count, survival)
            exceeding = np.convolve(exceeding, of_class)
        assert exceeding[: late + 1].sum() == pytest.approx(p, abs=1e-8)


@pytest.mark.parametrize(
    ("removed", "left"), [(3, [(60, 1.0), (2, 1.1)]), (7, [(58, 1.0)]), (0, [(60, 1.0), (5, 1.1)])]
)
def test_without_lasting_factors_the_slowest_classes_go(removed: int, left: Classes) -> None:
    fields = {"transient": (NORMAL, 0.03)}
    found = mean_of([(60, 1.0), (5, 1.1)], num_removed=removed, **fields)
    assert found == pytest.approx(mean_of(left, **fields), rel=1e-12)


def test_removal_by_simulation_is_not_done_here() -> None:
    fields = {"persistent": (NORMAL, 0.03), "transient": (NORMAL, 0.02)}
    assert mean_of([(64, 1.0)], num_removed=5, **fields) == mean_of([(64, 1.0)], **fields)


def test_episodes_average_one_over_the_step_by_time() -> None:
    """Only episodes: a step is 1 or the severity, by whether any GPU is in one."""
    occupancy, severity, outside = 1e-3, 1.5, 0.3
    any_slow = 1 - (1 - occupancy) ** 100
    reciprocal = (1 - any_slow) / (outside + 1) + any_slow / (outside + severity)
    found = mean_of([(100, 1.0)], episodes=(occupancy, severity), outside_ratio=outside)
    assert found == pytest.approx(1 / reciprocal - outside, rel=1e-10)


@pytest.mark.parametrize("num_gpus", [50, 2000])
def test_episodes_agree_with_a_sum_over_all_states(num_gpus: int) -> None:
    occupancy, severity, outside, cv = 0.04, 1.05, 0.2, 0.03
    reciprocal, below = 0.0, np.zeros(3)
    given = {"transient": (NORMAL, cv), "outside_ratio": outside}
    found = pooled_slowest(one_fleet([(num_gpus, 1.0)], episodes=(occupancy, severity), **given))
    slow = np.arange(num_gpus + 1)
    weights = stats.binom.pmf(slow, num_gpus, occupancy)
    likely = weights > 1e-13
    states = Groups(
        LAW_OF[NORMAL],
        np.stack([num_gpus - slow, slow])[:, likely].astype(float),
        np.array([[1.0], [severity]]) * np.ones(likely.sum()),
        source((NORMAL, cv), likely.sum()).shape,
    )
    reciprocal = (weights[likely] / (outside + slowest_of(states).mean)).sum()
    assert found.mean[0] == pytest.approx(1 / reciprocal - outside, rel=2e-9)
    for number, count in enumerate(slow[likely].tolist()):
        nominal, slower = (
            stats.norm.cdf((found.quantiles[0] / mean - 1) / cv) for mean in (1.0, severity)
        )
        below += weights[likely][number] * nominal ** (num_gpus - count) * slower**count
    np.testing.assert_allclose(below, PROBABILITIES, atol=1e-8)


def test_the_same_point_alone_and_among_others() -> None:
    """To 1e-9, whatever stands beside it, in one layout or another."""
    rng = np.random.default_rng(5)
    num_points = 70
    fleet = Fleet(
        num_gpus=rng.integers(1, 100, (1, num_points)).astype(np.float64) * 8,
        mean=np.ones((1, num_points)),
        gpus_per_node=rng.choice([1, 4, 8], num_points).astype(np.int64),
        tensor_parallel_size=rng.choice([1, 4], num_points).astype(np.int64),
        outside_ratio=np.full(num_points, 0.3),
        num_removed=np.zeros(num_points, np.int64),
        num_backup=np.zeros(num_points, np.int64),
        autocorrelation=np.zeros(num_points),
        node=source((NORMAL, 0.02), num_points),
        transient=source((GAMMA, 0.03), num_points),
    )
    together = pooled_slowest(fleet)
    for point in (0, 33, 69):
        alone = pooled_slowest(fleet.part(np.array([point])))
        assert alone.mean[0] == pytest.approx(together.mean[point], rel=1e-11)
        assert alone.quantiles[0] == pytest.approx(together.quantiles[point], rel=1e-11)


factor = st.tuples(st.sampled_from([NORMAL, LOGNORMAL, GAMMA]), st.floats(1e-4, 0.15))
some = {name: st.none() | factor for name in ("persistent", "transient", "node", "replica")}
# With a probability of 5 % the p95 may be anywhere between the body and the spikes.
unclear_at_no_quantile = st.floats(1e-5, 0.3).filter(
    lambda p: np.abs(p + np.array(PROBABILITIES) - 1).min() > 1e-3
)
spikes = st.none() | st.tuples(st.floats(1e-6, 0.1), st.floats(1.01, 4.0))


@settings(max_examples=15)
@given(fields=st.fixed_dictionaries(some), added=st.sampled_from(sorted(some)), new=factor)
def test_one_more_factor_of_mean_1_never_makes_steps_shorter(
    fields: dict[str, Any], added: str, new: tuple[str, float]
) -> None:
    whole = {"tensor_parallel_size": 2, "gpus_per_node": 4}
    without = mean_of([(30, 1.0)], **(fields | {added: None}), **whole)
    with_it = mean_of([(30, 1.0)], **(fields | {added: new}), **whole)
    assert with_it >= without * (1 - 1e-9)


@settings(max_examples=5)
@given(fields=st.fixed_dictionaries(some), spikes=spikes, slow=st.integers(1, 29))
def test_equal_gpus_in_two_classes_are_one_class(
    fields: dict[str, Any], spikes: tuple[float, float] | None, slow: int
) -> None:
    whole = {"tensor_parallel_size": 2, "gpus_per_node": 4, "spikes": spikes, **fields}
    one, two = [(30, 1.0)], [(30 - slow, 1.0), (slow, 1.0)]
    assert quantiles_of(one, **whole) == pytest.approx(quantiles_of(two, **whole), rel=1e-7)
    assert mean_of(one, **whole) == pytest.approx(mean_of(two, **whole), rel=1e-7)


@settings(max_examples=15)
@given(own=factor, probability=unclear_at_no_quantile, slowdown=st.floats(1.01, 3.0))
def test_spikes_are_a_mixture_of_classes(
    own: tuple[str, float], probability: float, slowdown: float
) -> None:
    """For one GPU: its spikes, or its class drawn with their probability as an episode."""
    in_step = quantiles_of([(1, 1.0)], transient=own, spikes=(probability, slowdown))
    in_time = quantiles_of([(1, 1.0)], transient=own, episodes=(probability, slowdown))
    assert in_step == pytest.approx(in_time, rel=1e-7)


@given(fields=st.fixed_dictionaries(some | {"common": st.none() | factor}))
@settings(max_examples=15)
def test_one_gpu_has_its_own_mean(fields: dict[str, Any]) -> None:
    assert mean_of([(1, 1.0)], **fields) == pytest.approx(1, abs=1e-15)
    assert mean_of([(1, 1.25)], **fields) == pytest.approx(1.25, abs=1e-15)


@pytest.mark.parametrize("fields", [{"replica": (NORMAL, 0.2)}, {"episodes": (0.1, 3.0)}])
def test_steps_along_one_line_are_those_of_the_slowest(fields: dict[str, Any]) -> None:
    """A normal factor may be below 0, where the logarithm of a quadrature finds nothing."""
    fleet = one_fleet([(2, 1.0)], **fields)
    slope, offset = 1.5, 0.25
    lines = Lines(np.full((2, 1), slope), np.full((2, 1), offset))
    along = pooled_slowest(replace(fleet, lines=lines))
    plain = pooled_slowest(fleet)
    if "episodes" in fields:
        beside = replace(fleet, outside_ratio=(fleet.outside_ratio + offset) / slope)
        plain = pooled_slowest(beside)
    assert along.mean[0] == pytest.approx(offset + slope * plain.mean[0], rel=1e-12)
    assert along.quantiles[0] == pytest.approx(offset + slope * plain.quantiles[0], rel=1e-12)
    if "replica" in fields:
        # The larger of two normal numbers: 1 / sqrt(pi) standard deviations.
        assert plain.mean[0] == pytest.approx(1 + 0.2 / np.pi**0.5, rel=1e-9)


def test_straight_and_bent_lines_beside_each_other() -> None:
    two = replace(
        one_fleet([(4, 1.0)], transient=(GAMMA, 0.1)).part(np.zeros(2, dtype=np.intp)),
        lines=Lines(np.array([[1.0, 0.5], [1.0, 1.0]]), np.array([[0.0, 0.6], [0.0, 0.0]])),
    )
    found = pooled_slowest(two)
    for point in range(2):
        alone = pooled_slowest(two.part(slice(point, point + 1)))
        assert found.mean[point] == pytest.approx(alone.mean[0], rel=1e-12)
        assert found.quantiles[point] == pytest.approx(alone.quantiles[0], rel=1e-12)
    assert found.mean[1] > found.mean[0]
