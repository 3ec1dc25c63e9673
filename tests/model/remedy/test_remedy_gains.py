"""What remedies give back: by hand, and against evaluations of scenarios changed by hand."""

from typing import Any

import numpy as np
import pytest
from scipy import optimize

from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.kernel import evaluate
from service.model.parts.communication import Link
from service.model.remedy.remedies import applicable
from service.model.remedy.remedy_gains import Gains, evaluated
from service.model.remedy.remedy_grid import RemedyGrid, remedy_grid
from service.model.remedy.remedy_kinds import RemedyRequest
from service.model.results import REMEDIES
from service.model.scenario import decode_fields, decode_scenario

HOURS = 24 * 30
STEP: dict[str, Any] = {
    "num_gpus": 64,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
}
SLOW = {"slow_groups": [{"count": 1, "speed_fraction": 0.7}]}
FAILING = {"failures_per_1000_node_days": 6.5, "checkpoint_write_s": 60, "restart_s": 300}
Found = tuple[RemedyGrid, dict[str, Any], Gains]


def scenario(**changes: Any) -> Scenario:
    return decode_scenario({**STEP, **changes})


def tried(document: Scenario, *requests: RemedyRequest) -> Found:
    grid = remedy_grid(document, applicable(document, requests)[0])
    results, gains = evaluated(grid)
    assert not results.failure.any()
    return grid, results.columns, gains


def given_back(document: Scenario, *requests: RemedyRequest) -> dict[Any, float]:
    grid, _, gains = tried(document, *requests)
    return {
        (change.remedy.kind, *(change.remedy.setting or {}).values()): float(hours)
        for change, hours in zip(grid.changes, gains.given_back[1:], strict=True)
    }


def result(document: Scenario) -> dict[str, float]:
    columns = evaluate(columns_of(document)).columns
    return {name: values[0].item() for name, values in columns.items()}


def cv(value: float, kind: str = "lognormal") -> dict[str, Any]:
    return {"kind": kind, "cv": value}


def test_the_one_slow_gpu_gives_back_the_founding_figure() -> None:
    # 64 GPUs, 30 days: 46 080 GPU-hours less 46 080 x 410 / (110 + 300 / 0.7)
    found = given_back(scenario(**SLOW))
    slow_step = 110 + 300 / 0.7
    lost = 64 * HOURS * (1 - 410 / slow_step)
    assert round(lost, 2) == 11_000.53
    assert found["replace_slow_gpus",] == pytest.approx(lost, rel=1e-12)
    # An evicted GPU is no longer held, a spare is held beside the others, and a backup worker
    # is held for nothing: of 64 GPUs one step takes 63 shares.
    assert found["evict_worst", 1] == pytest.approx(lost, rel=1e-12)
    assert found["hot_spares", 1] == pytest.approx(lost - HOURS, rel=1e-12)
    assert found["backup_workers", 1] == pytest.approx(lost - HOURS, rel=1e-12)
    # Work by speed: 300 ms x 64 / 63.7 for everybody.
    balanced = 110 + 300 * 64 / 63.7
    assert found["rebalance_work",] == pytest.approx(
        64 * HOURS * (410 / balanced - 410 / slow_step), rel=1e-12
    )


def test_each_remedy_is_an_evaluation_of_the_scenario_changed_by_hand() -> None:
    sources = {"transient": cv(0.03), "replica": cv(0.02, "normal")}
    whole: dict[str, Any] = {
        **SLOW,
        "variability": sources,
        "failures": {**FAILING, "checkpoint_interval_s": 7200},
    }
    before = result(scenario(**whole))
    by_hand: dict[Any, dict[str, Any]] = {
        ("replace_slow_gpus",): {"slow_groups": []},
        ("evict_worst", 1): {"num_evicted_gpus": 1},
        ("hot_spares", 1): {"num_spare_gpus": 1},
        ("backup_workers", 4): {"synchronization": {"kind": "backup_workers", "count": 4}},
        ("balance_data", 0.5): {"variability": {**sources, "replica": cv(0.01, "normal")}},
        ("balance_data", 0.0): {"variability": {"transient": cv(0.03)}},
        ("checkpoint_optimal",): {"failures": FAILING},
    }
    found = given_back(scenario(**whole))
    assert set(by_hand) < set(found)
    for key, changes in by_hand.items():
        after = result(scenario(**{**whole, **changes}))
        lost = before["gpu_hours_lost"] - after["gpu_hours_lost"]
        assert found[key] == pytest.approx(lost, rel=1e-9, abs=1e-6), key


def test_faster_detection_shortens_the_episodes() -> None:
    episodes = {"rate_per_gpu_day": 0.02, "mean_hours": 12.0, "severity": 1.4}
    before = result(scenario(variability={"episodes": episodes}))
    asked = RemedyRequest(kind="faster_detection", mean_hours=(3.0, 0.0))
    found = given_back(scenario(variability={"episodes": episodes}), asked)
    after = result(scenario(variability={"episodes": {**episodes, "mean_hours": 3.0}}))
    lost = before["gpu_hours_lost"] - after["gpu_hours_lost"]
    assert found["faster_detection", 3.0] == pytest.approx(lost, rel=1e-9)
    # Noticed at once they cost nothing.
    assert found["faster_detection", 0.0] == pytest.approx(before["gpu_hours_lost"], rel=1e-9)


def test_held_and_effective_add_up_to_what_is_given_back() -> None:
    document = scenario(**SLOW, variability={"transient": cv(0.03)})
    grid, columns, gains = tried(document)
    held = columns["gpu_hours_available"]
    effective = held * gains.efficiency
    assert gains.given_back[0] == gains.held_change[0] == gains.effective_change[0] == 0
    np.testing.assert_allclose(gains.held_change, held - held[0])
    np.testing.assert_allclose(gains.effective_change, effective - effective[0], atol=1e-9)
    # The same work as before, by so many of the new GPU-hours for each effective one.
    saved = held[0] - effective[0] * held / effective
    np.testing.assert_allclose(gains.saved, saved, atol=1e-9)
    np.testing.assert_allclose(gains.given_back, gains.effective_change - gains.held_change)
    kinds = [change.remedy.kind for change in grid.changes]
    # Steps of GPUs that do not wait for all in every step are simulated.
    sampled = np.flatnonzero(gains.given_back_se)
    assert sampled.tolist() == [1 + kinds.index("delayed_update")]
    assert gains.held_change[1 + kinds.index("hot_spares")] == HOURS
    assert gains.held_change[1 + kinds.index("evict_worst")] == -HOURS


def test_evicting_equal_gpus_is_nothing_but_a_smaller_cluster() -> None:
    varying = {"variability": {"transient": cv(0.05, "normal")}}
    evicted = result(scenario(**varying, num_evicted_gpus=8))
    smaller = result(scenario(**{**varying, "num_gpus": 56}))
    assert evicted["efficiency_fraction"] == pytest.approx(smaller["efficiency_fraction"], rel=1e-9)
    left_out = applicable(scenario(**varying))[1]
    assert {"evict_worst", "hot_spares"} <= {each.kind for each in left_out}


def test_evicting_the_worst_of_lasting_and_passing_variability() -> None:
    document = scenario(
        num_gpus=1024,
        variability={"persistent": cv(0.04, "normal"), "transient": cv(0.03, "normal")},
    )
    _, columns, gains = tried(document, RemedyRequest(kind="evict_worst", counts=(8,)))
    shorter = (columns["step_mean_ms"][0] - columns["step_mean_ms"][1]) / 300
    samples = _shorter_by_brute_force(num_clusters=10_000, steps=4)
    error = np.hypot(samples.std(ddof=1) / np.sqrt(len(samples)), 1e-4)
    assert abs(shorter - samples.mean()) < 4 * error
    # Design page "The model", section 3, says .0135; many draws find .0142.
    assert shorter == pytest.approx(0.0135, abs=0.001)
    assert 0 < gains.given_back_se[1] < 0.05 * gains.given_back[1]
    assert gains.given_back[1] > 4 * gains.given_back_se[1]


def _shorter_by_brute_force(*, num_clusters: int, steps: int) -> Any:
    """By how much the slowest of 1 024 GPUs is shorter without the 8 slowest for good."""
    generator = np.random.default_rng(5)
    found = []
    for _ in range(num_clusters // 500):
        gpus = np.sort(1 + 0.04 * generator.standard_normal((500, 1024)), axis=1)
        of_steps = [gpus * (1 + 0.03 * generator.standard_normal(gpus.shape)) for _ in range(steps)]
        # The mean over a cluster's steps is one sample: steps of one cluster are alike.
        found.append(np.mean([x.max(axis=1) - x[:, :-8].max(axis=1) for x in of_steps], axis=0))
    return np.concatenate(found)


def test_the_optimal_checkpoint_interval_is_what_scipy_finds() -> None:
    document = scenario(num_gpus=16_384, failures={**FAILING, "checkpoint_interval_s": 7200})
    rate = 6.5 / 1000 * 16_384 / 8 / 86_400

    def share(interval: float) -> float:
        away = np.exp(-rate * 300)
        return float(rate * interval * away / np.expm1(rate * (interval + 60)))

    best = optimize.minimize_scalar(
        lambda interval: -share(interval),
        bounds=(1, 7200),
        method="bounded",
        options={"xatol": 1e-6},
    )
    found = given_back(document)["checkpoint_optimal",]
    hours = 16_384 * HOURS * (share(best.x) - share(7200))
    assert found == pytest.approx(hours, rel=1e-9)


def test_a_step_of_a_strongly_scaled_job_is_the_same_work_at_any_size() -> None:
    strong = {"scaling": {"kind": "strong", "reference_num_gpus": 64}}
    found = given_back(scenario(**SLOW, **strong))
    # Without the slow GPU 63 share the work: 300 x 64 / 63 ms each, and a step is still worth
    # 64 x 410 ms.
    step, before = 110 + 300 * 64 / 63, 110 + 300 / 0.7
    lost_before = 64 * HOURS * (1 - 410 / before)
    lost_after = 63 * HOURS - 64 * HOURS * 410 / step
    assert found["evict_worst", 1] == pytest.approx(lost_before - lost_after, rel=1e-12)
    assert found["hot_spares", 1] == pytest.approx(lost_before - HOURS, rel=1e-12)


def test_without_the_spread_the_same_is_given_back() -> None:
    document = scenario(**SLOW, variability={"persistent": cv(0.03)})
    grid = remedy_grid(document, applicable(document)[0])
    (whole, gains), (quick, same) = evaluated(grid), evaluated(grid, with_spread=False)
    np.testing.assert_array_equal(same.given_back, gains.given_back)
    np.testing.assert_array_equal(
        quick.columns["gpu_hours_given_back"], whole.columns["gpu_hours_given_back"]
    )
    assert np.isnan(quick.columns["gpu_hours_lost_p90"]).all()
    assert (quick.columns["spread_method"] == -1).all()
    assert np.isfinite(whole.columns["gpu_hours_lost_p90"]).all()
    groups = [{"count": 2, "speed_fraction": 1.0}]
    broken = decode_fields({**STEP, "num_gpus": 1, "slow_groups": groups})
    assert evaluate(columns_of(broken), with_spread=False).failure[0] > 0


def test_the_columns_of_remedies_are_null_at_the_scenario_as_it_is() -> None:
    groups = [{"count": 2, "speed_fraction": 0.7}, {"count": 3, "speed_fraction": 1.0}]
    grid, columns, gains = tried(scenario(slow_groups=groups))
    assert columns["remedy"][0] == -1
    assert np.isnan([columns["remedy_count"][0], columns["gpu_hours_given_back"][0]]).all()
    codes = [REMEDIES.index(change.remedy.kind) for change in grid.changes]
    assert columns["remedy"].tolist() == [-1, *codes]
    units = {REMEDIES[code]: columns["remedy_count"][1 + at] for at, code in enumerate(codes)}
    assert units["replace_slow_gpus"] == 2
    assert units["rebalance_work"] == 1
    assert units["hot_spares"] == 2
    np.testing.assert_array_equal(columns["gpu_hours_given_back"][1:], gains.given_back[1:])


LINK = {"latency_us": 20.0, "bandwidth_gigabytes_per_s": 25.0}
INSIDE = Link(latency_us=2.0, bandwidth_gigabytes_per_s=250.0)
SIZE = 8e9


def ring_ms(size: float) -> float:
    """Of 64: 2 x 63 latencies of 20 us, and 2 x 63/64 of the bytes at 25e9 a second."""
    return 2 * 63 * 0.02 + 2 * 63 / 64 * size / 25e6


def linked(**changes: Any) -> Scenario:
    communication = {"kind": "ring", "message_bytes": SIZE, "link": LINK, **changes}
    return scenario(communication=communication, **SLOW)


def by_hand(before_ms: float, after_ms: float, ideal_ms: float) -> float:
    """All GPUs are held either way: steps in the window, each worth the original ideal step."""
    window_ms = HOURS * 3.6e6
    steps_before, steps_after = window_ms / before_ms, window_ms / after_ms
    return 64 * (steps_after - steps_before) * ideal_ms / 3.6e6


def test_compression_is_worth_the_steps_at_the_original_ideal() -> None:
    slow = 300 / 0.7
    before, ideal = 30 + slow + ring_ms(SIZE), 330 + ring_ms(SIZE)
    asked = RemedyRequest(kind="compress_gradients", compression_ratios=(4.0,), compression_ms=6.0)
    _, columns, gains = tried(linked(), asked)
    after = 30 + slow + ring_ms(SIZE / 4) + 6
    assert columns["step_mean_ms"][1] == pytest.approx(after, rel=1e-12)
    # The ideal of the changed scenario is shorter, and is not what it is measured by.
    assert columns["ideal_step_ms"][1] == pytest.approx(336 + ring_ms(SIZE / 4), rel=1e-12)
    expected = by_hand(before, after, ideal)
    assert gains.given_back[1] == pytest.approx(expected, rel=1e-12)
    assert gains.given_back[1] > columns["gpu_hours_lost"][0]
    assert gains.efficiency[1] == pytest.approx(ideal / after, rel=1e-12)


def test_a_hierarchy_is_worth_the_steps_at_the_original_ideal() -> None:
    _, columns, gains = tried(
        linked(), RemedyRequest(kind="hierarchical_collective", intra_link=INSIDE)
    )
    # 8 nodes of 8: 2 x 7/8 inside, 2 x 7/8 of an eighth between; min(2 x 7, 2 x 3) latencies.
    inside = 2 * 7 * 0.002 + 2 * 7 / 8 * SIZE / 250e6
    between = 6 * 0.02 + 2 * 7 / 8 * SIZE / 8 / 25e6
    slow = 30 + 300 / 0.7
    assert columns["step_mean_ms"][1] == pytest.approx(slow + inside + between, rel=1e-12)
    expected = by_hand(slow + ring_ms(SIZE), slow + inside + between, 330 + ring_ms(SIZE))
    assert gains.given_back[1] == pytest.approx(expected, rel=1e-12)


def test_sharded_messages_are_worth_the_steps_at_the_original_ideal() -> None:
    sharded = {"kind": "fsdp", "num_layers": 1, "prefetch_layers": 0}
    document = decode_scenario(
        {
            **STEP,
            "communication": {"kind": "ring", "message_bytes": SIZE, "link": LINK},
            "overlap": sharded,
        }
    )
    asked = RemedyRequest(kind="compress_gradients", compression_ratios=(2.0,))
    _, columns, gains = tried(document, asked)

    # One layer: gathered before it computes, scattered after; nothing can hide.
    before, after = 330 + ring_ms(SIZE), 330 + ring_ms(SIZE / 2)
    np.testing.assert_allclose(columns["step_mean_ms"], [before, after], rtol=1e-12)
    expected = by_hand(before, after, ideal_ms=before)
    assert gains.given_back[1] == pytest.approx(expected, rel=1e-12)


def test_local_steps_are_worth_what_the_users_penalty_leaves() -> None:
    asked = RemedyRequest(kind="local_steps", steps=(10,), extra_steps_fraction=0.05)
    _, columns, gains = tried(linked(), asked)
    slow = 30 + 300 / 0.7
    before, after = slow + ring_ms(SIZE), slow + ring_ms(SIZE) / 10
    ideal = 330 + ring_ms(SIZE)
    assert columns["step_mean_ms"][1] == pytest.approx(after, rel=1e-12)
    expected = by_hand(before, after * 1.05, ideal)
    assert gains.given_back[1] == pytest.approx(expected, rel=1e-9)
    gain = columns["break_even_extra_steps_fraction"]
    assert np.isnan(gain[0])
    assert gain[1] == pytest.approx(before / after - 1, rel=1e-12)
    # With just so many extra steps it gives back nothing.
    even = RemedyRequest(kind="local_steps", steps=(10,), extra_steps_fraction=float(gain[1]))
    _, _, gains = tried(linked(), even)
    assert gains.given_back[1] == pytest.approx(0, abs=1e-8)


def test_a_delay_that_is_hidden_leaves_compute_alone() -> None:
    document = scenario(**SLOW)
    _, columns, gains = tried(document, RemedyRequest(kind="delayed_update"))
    after = 30 + 300 / 0.7
    assert columns["step_mean_ms"][1] == pytest.approx(after, rel=1e-12)
    assert gains.given_back[1] == pytest.approx(by_hand(after + 80, after, 410), rel=1e-12)


def test_eight_buckets_and_hidden_loads_by_hand() -> None:
    asked = [RemedyRequest(kind="overlap_buckets", num_buckets=(8,))]
    _, columns, gains = tried(scenario(**SLOW), *asked, RemedyRequest(kind="prefetch_load"))
    slow = 300 / 0.7
    # max(S + C/K, S (1/3 + 2/3 / K) + C) beside the load
    bucketed = 30 + max(slow + 10, slow * (1 / 3 + 2 / 3 / 8) + 80)
    np.testing.assert_allclose(columns["step_mean_ms"][1:], [bucketed, slow + 80], rtol=1e-12)
    expected = [by_hand(110 + slow, after, 410) for after in (bucketed, slow + 80)]
    np.testing.assert_allclose(gains.given_back[1:], expected, rtol=1e-12)
