from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from service.model.clusters.spread import spread_of
from service.model.distributions import FAMILIES, Law, law_of
from service.model.fleet import Episodes, Fleet, Spikes
from service.model.slowest.pooled import pooled_slowest
from tests.model.brute_clusters import (
    NUM_STEPS,
    OUTSIDE_RATIO,
    WINDOW_HOURS,
    Floats,
    cluster_means,
    fleet,
    frozen,
    joined,
    sd_and_error,
    source,
    spread,
)

AVAILABLE = 24.0 * 1024 * 30
IDEAL = 1 + OUTSIDE_RATIO


def lost(factor: Floats) -> Floats:
    return AVAILABLE * (1 - IDEAL / (OUTSIDE_RATIO + factor))


def spikes(probability: float, slowdown: float) -> Spikes:
    return Spikes(probability=np.full(1, probability), slowdown=np.full(1, slowdown))


def episodes(occupancy: float, severity: float, mean_hours: float) -> Episodes:
    return Episodes(
        occupancy=np.full(1, occupancy),
        severity=np.full(1, severity),
        mean_hours=np.full(1, mean_hours),
    )


def test_the_loss_of_clusters_that_differ_for_good() -> None:
    found = spread(fleet(persistent=source("normal", 0.05)))
    expected = [69_424.95, 77_365.07, 88_150.72]
    np.testing.assert_allclose(lost(found.quantiles[0]), expected, atol=0.005)
    assert AVAILABLE * IDEAL * found.reciprocal_sd[0] == pytest.approx(7_495.04, abs=0.005)
    cluster_mean = AVAILABLE * (1 - IDEAL * found.reciprocal_mean[0])
    assert cluster_mean == pytest.approx(78_225, abs=0.5)
    assert lost(found.mean)[0] == pytest.approx(78_310.63, abs=0.005)
    assert found.method[0] == 1
    assert found.quantiles_se.max() == found.mean_se[0] == found.reciprocal_mean_se[0] == 0


def test_the_noise_of_steps_is_all_that_is_left_of_it() -> None:
    found = spread(fleet(transient=source("normal", 0.05)))
    assert AVAILABLE * IDEAL * found.reciprocal_sd[0] == pytest.approx(3.18, abs=0.005)
    low, middle, high = lost(found.quantiles[0]).tolist()
    assert middle == pytest.approx(78_310.63, abs=0.005)
    assert high - middle == pytest.approx(1.2816 * 3.18, abs=0.01)
    assert middle - low == pytest.approx(1.2816 * 3.18, abs=0.01)


def test_a_single_gpu_loses_nothing_on_average() -> None:
    found = spread(fleet((1.0,), persistent=source("lognormal", 0.2)))
    assert found.mean[0] == pytest.approx(1, abs=1e-9)
    law = frozen("lognormal", 0.2)
    np.testing.assert_allclose(found.quantiles[0], law.ppf([0.1, 0.5, 0.9]), rtol=1e-9)
    sampled = spread(
        fleet((1.0,), persistent=source("lognormal", 0.2), transient=source("gamma", 0.1))
    )
    assert abs(sampled.mean[0] - 1) < 4 * sampled.mean_se[0]
    np.testing.assert_allclose(sampled.quantiles[0], law.ppf([0.1, 0.5, 0.9]), rtol=5e-3)


LASTING: dict[str, dict[str, Any]] = {
    "persistent": {"persistent": source("normal", 0.05)},
    "node": {"node": source("lognormal", 0.05)},
    "both": {"node": source("normal", 0.05), "persistent": source("gamma", 0.03)},
    "nodes of one": {
        "gpus_per_node": 1,
        "node": source("normal", 0.05),
        "persistent": source("gamma", 0.03),
    },
    "abrupt": {"persistent": source("exponential", 0.05)},
}
PER_STEP: dict[str, dict[str, Any]] = {
    "transient": {"transient": source("normal", 0.05)},
    "abrupt": {"transient": source("pareto", 0.05)},
    "product": {"transient": source("normal", 0.05), "replica": source("gamma", 0.03)},
    "groups": {
        "transient": source("normal", 0.05),
        "replica": source("gamma", 0.03),
        "tensor_parallel_size": 4,
    },
    "groups alone": {"replica": source("gamma", 0.03), "tensor_parallel_size": 4},
    "spikes": {"transient": source("normal", 0.05), "spikes": spikes(1e-4, 1.5)},
    "spikes alone": {"spikes": spikes(1e-4, 1.5)},
}


@pytest.mark.parametrize("lasting", LASTING)
@pytest.mark.parametrize("per_step", PER_STEP)
def test_the_mean_over_clusters_is_the_pooled_mean(lasting: str, per_step: str) -> None:
    given: dict[str, Any] = LASTING[lasting] | PER_STEP[per_step]
    if lasting == "nodes of one":
        # Groups do not reach beyond a node.
        given |= {"tensor_parallel_size": 1}
    of = fleet((520.0,), **given)
    found = spread(of, seed=1)
    assert found.method[0] == 2
    error = np.hypot(found.mean_se[0], 3e-5 * (found.mean[0] - 1))
    if per_step == "spikes alone":
        # A shade of noise stands for none.
        error += 1e-3 * (found.mean[0] - 1)
    assert abs(found.mean[0] - pooled_slowest(of).mean[0]) < 4.5 * error
    low, middle, high = found.quantiles[0].tolist()
    assert low < middle < high
    assert (found.quantiles_se[0] > 0).all()
    assert (found.quantiles_se[0] < 0.5 * (high - low)).all()


@pytest.mark.parametrize("lasting", ["persistent", "node", "both"])
def test_slow_groups_are_classes_of_their_own(lasting: str) -> None:
    of = fleet((1019.0, 5.0), (1.0, 1.1), transient=source("normal", 0.05), **LASTING[lasting])
    found = spread(of, seed=2)
    assert abs(found.mean[0] - pooled_slowest(of).mean[0]) < 4.5 * found.mean_se[0]


def test_a_smaller_last_node() -> None:
    of = fleet((1021.0,), transient=source("normal", 0.05), **LASTING["both"])
    found = spread(of, seed=3)
    assert abs(found.mean[0] - pooled_slowest(of).mean[0]) < 4.5 * found.mean_se[0]


@pytest.mark.parametrize(
    ("family", "persistent", "transient", "num_gpus"),
    [
        ("normal", 0.03, 0.05, 256),
        ("lognormal", 0.05, 0.05, 256),
        ("gamma", 0.05, 0.02, 64),
        ("weibull", 0.1, 0.1, 128),
        ("pareto", 0.1, 0.05, 128),
        ("normal", 0.05, 0.05, 12),
    ],
)
def test_clusters_by_brute_force(
    family: str, persistent: float, transient: float, num_gpus: int
) -> None:
    rng = np.random.default_rng(5)
    size = (300, num_gpus)
    factors = frozen(family, persistent).rvs(size=size, random_state=rng)
    wanted = cluster_means(factors, frozen(family, transient))
    of = fleet(
        (float(num_gpus),),
        persistent=source(family, persistent),
        transient=source(family, transient),
    )
    agrees(of, wanted)


@pytest.mark.parametrize(
    ("shared", "own", "transient"), [(0.05, 0.0, 0.03), (0.05, 0.05, 0.01), (0.02, 0.02, 0.05)]
)
def test_nodes_by_brute_force(shared: float, own: float, transient: float) -> None:
    rng = np.random.default_rng(6)
    nodes = frozen("lognormal", shared).rvs(size=(250, 32), random_state=rng)
    factors = np.repeat(nodes, 8, axis=1)
    given: dict[str, Any] = {}
    if own > 0:
        factors *= frozen("lognormal", own).rvs(size=factors.shape, random_state=rng)
        given = {"persistent": source("lognormal", own)}
    wanted = cluster_means(factors, frozen("lognormal", transient))
    of = fleet(
        (256.0,),
        node=source("lognormal", shared),
        transient=source("lognormal", transient),
        **given,
    )
    agrees(of, wanted)


def test_spikes_by_brute_force() -> None:
    rng = np.random.default_rng(7)
    factors = frozen("normal", 0.04).rvs(size=(200, 256), random_state=rng)
    wanted = cluster_means(factors, frozen("normal", 0.03), (1e-3, 1.4), nodes=120)
    of = fleet(
        (256.0,),
        persistent=source("normal", 0.04),
        transient=source("normal", 0.03),
        spikes=spikes(1e-3, 1.4),
    )
    agrees(of, wanted)


def agrees(of: Fleet, wanted: Floats) -> None:
    """Mean, standard deviation and quantiles within 4 standard errors of both sides."""
    found = spread(of, seed=11, draws=2048)
    sd, relative_error = sd_and_error(wanted)
    error = sd / len(wanted) ** 0.5
    assert abs(found.mean[0] - wanted.mean()) < 4 * np.hypot(error, found.mean_se[0])
    reciprocal_sd, _ = sd_and_error(1 / (OUTSIDE_RATIO + wanted))
    assert found.reciprocal_sd[0] == pytest.approx(reciprocal_sd, rel=4 * relative_error + 0.02)
    for number, p in enumerate((0.1, 0.5, 0.9)):
        error = quantile_error(wanted, p)
        difference = found.quantiles[0, number] - np.quantile(wanted, p)
        assert abs(difference) < 4 * np.hypot(error, found.quantiles_se[0, number])


def quantile_error(values: Floats, p: float) -> float:
    """Standard error of a sample's quantile, by the order statistics one error away."""
    away = np.sqrt(p * (1 - p) / len(values))
    return float(np.quantile(values, p + away) - np.quantile(values, p - away)) / 2


def test_one_law_under_many_seeds_has_the_errors_it_states() -> None:
    of = fleet((4096.0,), persistent=source("normal", 0.05), transient=source("normal", 0.03))
    found = [spread(of, seed=seed, draws=64) for seed in range(40)]
    exact = pooled_slowest(of).mean[0]
    z = np.array([(one.mean[0] - exact) / one.mean_se[0] for one in found])
    # Student's t with 7 degrees of freedom: standard deviation 1.18.
    assert 0.8 < z.std() < 1.7
    assert abs(z.mean()) < 4 * 1.18 / 40**0.5
    for number in range(3):
        values = np.array([one.quantiles[0, number] for one in found])
        stated = np.mean([one.quantiles_se[0, number] for one in found])
        assert 0.6 < stated / values.std() < 1.6


def test_points_do_not_depend_on_their_neighbours() -> None:
    fleets = [
        fleet((n,), persistent=source("normal", cv), transient=source("normal", 0.02))
        for n, cv in ((30.0, 0.05), (1024.0, 0.05), (1024.0, 0.04), (1e6, 0.01), (1e6, 0.3))
    ]
    together = spread(joined(fleets))
    for number, one in enumerate(fleets):
        alone = spread(one)
        np.testing.assert_allclose(together.quantiles[number], alone.quantiles[0], rtol=1e-12)
        np.testing.assert_allclose(together.mean[number], alone.mean[0], rtol=1e-12)
    swapped = together.taken(np.array([1, 0]))
    np.testing.assert_array_equal(swapped.mean, together.mean[[1, 0]])


def test_many_draws_are_worked_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    of = fleet(persistent=source("normal", 0.05), transient=source("normal", 0.05))
    whole = spread(of, draws=100)
    monkeypatch.setattr("service.model.clusters.cluster_spread._AT_ONCE", 1000)
    monkeypatch.setattr("service.model.clusters.cluster_draws._MANY", 1000)
    parts = spread(of, draws=100)
    # The nodes of the integrals over t fit each part.
    np.testing.assert_allclose(parts.quantiles, whole.quantiles, rtol=1e-6)


def test_evicting_the_slowest() -> None:
    given: dict[str, Any] = {
        "persistent": source("normal", 0.04),
        "transient": source("normal", 0.03),
    }
    rng = np.random.default_rng(8)
    factors = np.sort(1 + 0.04 * rng.standard_normal((150, 1024)), axis=1)
    steps = frozen("normal", 0.03)
    # The slowest three hundred decide.
    all_of_them = cluster_means(factors[:, -300:], steps)
    gains = all_of_them - cluster_means(factors[:, -308:-8], steps)
    found = (
        spread(fleet(**given), draws=2048).mean
        - spread(fleet(num_removed=8, **given), draws=2048).mean
    )
    error = gains.std() / len(gains) ** 0.5
    assert abs(found[0] - gains.mean()) < 4 * error + 1e-4
    assert found[0] == pytest.approx(0.0143, abs=2e-4)


def test_evicting_by_order_statistics_where_steps_are_equal() -> None:
    found = spread(fleet(num_removed=8, persistent=source("normal", 0.04)))
    # The ninth largest of 1 024 scores, expected at 2.3928010393 (reference: stragglers.md 2.2).
    assert found.mean[0] == pytest.approx(1 + 0.04 * 2.3928010393, abs=1e-9)
    narrow = spread(
        fleet(num_removed=8, persistent=source("normal", 0.04), transient=source("normal", 1e-5))
    )
    assert abs(narrow.mean[0] - found.mean[0]) < 4 * narrow.mean_se[0] + 3e-4


def test_evicting_whole_nodes() -> None:
    given: dict[str, Any] = {"node": source("normal", 0.04), "transient": source("normal", 0.03)}
    found = spread(fleet((512.0,), num_removed=16, **given), draws=1024)
    rng = np.random.default_rng(9)
    nodes = np.sort(1 + 0.04 * rng.standard_normal((250, 64)), axis=1)[:, :-2]
    wanted = cluster_means(np.repeat(nodes, 8, axis=1), frozen("normal", 0.03))
    error = wanted.std() / 250**0.5
    assert abs(found.mean[0] - wanted.mean()) < 4 * np.hypot(error, found.mean_se[0])


def test_evicting_from_a_slow_group_that_is_gone_then() -> None:
    given: dict[str, Any] = {
        "persistent": source("normal", 0.01),
        "transient": source("normal", 0.03),
    }
    found = spread(fleet((1024.0, 4.0), (1.0, 1.4), num_removed=4, **given))
    alone = spread(fleet((1024.0,), **given))
    assert abs(found.mean[0] - alone.mean[0]) < 5 * np.hypot(found.mean_se[0], alone.mean_se[0])


def test_evicting_gains_nothing_where_nothing_lasts() -> None:
    given: dict[str, Any] = {"transient": source("normal", 0.03)}
    found = spread(fleet((1024.0,), num_removed=8, **given))
    fewer = spread(fleet((1016.0,), **given))
    np.testing.assert_allclose(found.quantiles, fewer.quantiles, rtol=1e-12)


def test_common_noise_and_correlated_steps_widen_the_noise() -> None:
    given: dict[str, Any] = {"transient": source("normal", 0.05)}
    plain = spread(fleet(**given))
    common = spread(fleet(common=source("gamma", 0.1), **given))
    moment = pooled_slowest(fleet(**given)).mean[0] ** 2
    extra = 0.01 * moment / NUM_STEPS
    variance = plain.reciprocal_sd[0] ** 2 * (OUTSIDE_RATIO + plain.mean[0]) ** 4
    widened = common.reciprocal_sd[0] ** 2 * (OUTSIDE_RATIO + common.mean[0]) ** 4
    assert widened == pytest.approx(variance + extra, rel=2e-3)
    correlated = spread(fleet(autocorrelation=0.9, **given))
    ratio = correlated.reciprocal_sd[0] / plain.reciprocal_sd[0]
    assert ratio**2 == pytest.approx(4.19, abs=0.01)
    single = spread(fleet((1.0,), autocorrelation=0.9, **given))
    alone = spread(fleet((1.0,), **given))
    assert (single.reciprocal_sd / alone.reciprocal_sd)[0] ** 2 == pytest.approx(19, rel=1e-3)


def test_correlated_steps_beside_lasting_factors() -> None:
    given: dict[str, Any] = {
        "persistent": source("normal", 0.01),
        "transient": source("normal", 0.05),
    }
    plain = spread(fleet(**given), num_steps=100)
    correlated = spread(fleet(autocorrelation=0.9, **given), num_steps=100)
    ratio = correlated.reciprocal_sd[0] / plain.reciprocal_sd[0]
    # Nearly all of it is noise over so few steps, and its inflation is about that without.
    assert 1.7 < ratio < 2.1


def test_a_table_of_quantiles_as_the_common_factor() -> None:
    law = law_of_quantiles()
    given: dict[str, Any] = {"transient": source("normal", 0.05)}
    plain = spread(fleet(**given))
    common = replace(source("normal", 0.05), law=law)
    found = spread(fleet(common=common, **given))
    variance = plain.reciprocal_sd[0] ** 2 * (OUTSIDE_RATIO + plain.mean[0]) ** 4
    widened = found.reciprocal_sd[0] ** 2 * (OUTSIDE_RATIO + found.mean[0]) ** 4
    moment = plain.mean[0] ** 2
    assert (widened - variance) * NUM_STEPS == pytest.approx(0.04**2 * moment, rel=1e-2)
    # As a lasting factor it is one like any other.
    lasting = fleet(persistent=common, transient=source("normal", 0.03))
    sampled = spread(lasting, draws=512)
    assert abs(sampled.mean[0] - pooled_slowest(lasting).mean[0]) < 5 * sampled.mean_se[0]


def test_narrow_steps_are_counted_between_clusters() -> None:
    given: dict[str, Any] = {"persistent": source("normal", 0.05)}
    of = fleet(transient=source("normal", 0.0009), **given)
    found = spread(of)
    assert found.method[0] == 1
    assert found.mean[0] == pytest.approx(pooled_slowest(of).mean[0], rel=1e-8)
    wider = spread(fleet(transient=source("normal", 0.0011), **given), draws=4096)
    assert wider.method[0] == 2
    np.testing.assert_allclose(wider.quantiles[0], found.quantiles[0], atol=6e-4)
    assert wider.reciprocal_sd[0] == pytest.approx(found.reciprocal_sd[0], rel=0.03)


def test_backup_workers() -> None:
    exact = spread(fleet(num_backup=8, persistent=source("normal", 0.04)))
    assert exact.mean[0] == pytest.approx(1 + 0.04 * 2.3928010393, abs=1e-9)
    sampled: dict[str, Any] = {
        "persistent": source("normal", 0.04),
        "transient": source("normal", 0.03),
    }
    assert np.isnan(spread(fleet(num_backup=8, **sampled)).quantiles).all()
    steady = fleet(num_backup=8, transient=source("normal", 0.04))
    assert spread(steady).mean[0] == pytest.approx(1 + 0.04 * 2.3928010393, abs=1e-9)


@pytest.mark.parametrize(
    "given",
    [
        {"num_gpus": (1016.0, 8.0), "mean": (1.0, 1.2)},
        {"num_removed": 8},
        {"transient": None, "spikes": spikes(1e-3, 1.5)},
    ],
)
def test_groups_that_share_a_factor_are_not_covered_everywhere(given: dict[str, object]) -> None:
    of: dict[str, Any] = {
        "persistent": source("normal", 0.04),
        "transient": source("normal", 0.03),
        "replica": source("normal", 0.03),
        "tensor_parallel_size": 8,
    }
    assert np.isnan(spread(fleet(**(of | given))).mean).all()


def test_episodes_average_over_their_states_and_leave_noise() -> None:
    of = fleet((64.0,), transient=source("normal", 0.05), episodes=episodes(0.002, 1.3, 2.0))
    found = spread(of)
    assert found.mean[0] == pytest.approx(pooled_slowest(of).mean[0], abs=1e-7)
    sd = found.reciprocal_sd[0] * (OUTSIDE_RATIO + found.mean[0]) ** 2
    assert sd == pytest.approx(simulated_episodes(), rel=0.1)


def simulated_episodes() -> float:
    """Standard deviation over windows of the effective factor: 64 GPUs, each slow now and then."""
    rng = np.random.default_rng(10)
    slow = np.arange(4.0)
    means = np.array(
        [
            cluster_means(
                np.concatenate([np.ones(64 - k), np.full(k, 1.3)])[np.newaxis],
                frozen("normal", 0.05),
            )[0]
            for k in range(4)
        ]
    )
    rate = 64 * 0.002 / 2.0
    found = []
    for _ in range(1500):
        # Births by Poisson's law from long before the window on, exponential lives.
        births = np.sort(rng.uniform(-40, WINDOW_HOURS, rng.poisson(rate * (WINDOW_HOURS + 40))))
        ends = births + rng.exponential(2.0, len(births))
        times = np.concatenate([births, ends])
        change = np.concatenate([np.ones(len(births)), -np.ones(len(ends))])
        order = np.argsort(times)
        edges = np.clip(np.concatenate([times[order], [WINDOW_HOURS]]), 0, WINDOW_HOURS)
        level = np.cumsum(change[order])
        lasting = np.diff(edges)
        reciprocal = 1 / (OUTSIDE_RATIO + np.interp(level, slow, means))
        before = (WINDOW_HOURS - lasting.sum()) / (OUTSIDE_RATIO + means[0])
        average = (before + (lasting * reciprocal).sum()) / WINDOW_HOURS
        found.append(1 / average - OUTSIDE_RATIO)
    return float(np.std(found))


@pytest.mark.parametrize("lasting", ["persistent", "both"])
def test_episodes_beside_lasting_factors(lasting: str) -> None:
    of = fleet(
        transient=source("normal", 0.05), episodes=episodes(0.002, 1.3, 2.0), **LASTING[lasting]
    )
    found = spread(of)
    # The pooled mean averages over clusters inside of each state, this one outside: a small gap.
    assert found.mean[0] == pytest.approx(pooled_slowest(of).mean[0], abs=3e-4)
    without = spread(replace(of, episodes=None))
    assert found.mean[0] > without.mean[0]


def test_episodes_with_nothing_per_step() -> None:
    of = fleet((64.0,), persistent=source("normal", 0.03), episodes=episodes(0.002, 1.3, 2.0))
    found = spread(of)
    assert found.mean[0] == pytest.approx(pooled_slowest(of).mean[0], abs=4e-4)


def test_no_points() -> None:
    none = fleet(persistent=source("normal", 0.05), transient=source("normal", 0.05)).part(
        np.empty(0, dtype=np.intp)
    )
    empty = np.empty(0)
    found = spread_of(
        none,
        seed=np.empty(0, dtype=np.int64),
        draws=np.empty(0, dtype=np.int64),
        num_steps=empty,
        window_hours=empty,
    )
    assert found.quantiles.shape == (0, 3)


def law_of_quantiles() -> Law:
    """Sixteen hundred observed values of a normal factor of cv 4 %."""
    quantiles = tuple(frozen("normal", 0.04).ppf((np.arange(1600) + 0.5) / 1600).tolist())
    return law_of(FAMILIES.index("empirical"), quantiles)


def test_nodes_that_differ_for_good() -> None:
    found = spread(fleet(node=source("normal", 0.05)))
    wanted = 1 + 0.05 * norm.ppf(np.array([0.1, 0.5, 0.9]) ** (1 / 128))
    np.testing.assert_allclose(found.quantiles[0], wanted, rtol=1e-9)
    both = spread(fleet(node=source("normal", 0.04), persistent=source("normal", 0.03)))
    # 128 nodes of 8 GPUs: the design page's reference.
    assert both.mean[0] == pytest.approx(1.163968, abs=1e-6)


def test_a_class_that_only_one_point_has() -> None:
    given: dict[str, Any] = {"persistent": source("normal", 0.05)}
    with_slow = fleet((1016.0, 8.0, 0.0), (1.0, 1.2, 1.5), **given)
    without = fleet((1024.0, 0.0, 0.0), (1.0, 1.2, 1.5), **given)
    together = spread(joined([with_slow, without]))
    alone = spread(fleet((1024.0,), **given))
    np.testing.assert_allclose(together.quantiles[1], alone.quantiles[0], rtol=1e-9)
    # Eight GPUs at 1.2 decide: their maximum's median, the others' chance to exceed it aside.
    assert together.quantiles[0, 1] == pytest.approx(
        1.2 + 1.2 * 0.05 * norm.ppf(0.5 ** (1 / 8)), abs=2e-4
    )


def test_a_common_factor_alone() -> None:
    found = spread(fleet(common=source("gamma", 0.1)))
    assert found.mean[0] == pytest.approx(1, abs=1e-9)
    sd = found.reciprocal_sd[0] * (OUTSIDE_RATIO + 1) ** 2
    assert sd == pytest.approx(0.1 / NUM_STEPS**0.5, rel=1e-6)
