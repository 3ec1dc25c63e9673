from typing import Any

import numpy as np
import pytest
from scipy import stats

from service.model import rank_factors
from service.model.draws import RankDraw, draw_ranks
from service.model.rank_factors import CHUNK_RANKS
from service.model.scenario import Scenario, decode_scenario
from service.model.uniforms import upper_uniforms

MASK = 2**64 - 1


def philox(seed: int, source: int, block: int) -> list[int]:
    """Philox4x64-10 after Salmon et al. 2011, in whole numbers."""
    words, keys = [block, 0, 0, 0], [seed, source]
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * words[0], 0xCA5A826395121157 * words[2]
        words = [
            (second >> 64) ^ words[1] ^ keys[0],
            second & MASK,
            (first >> 64) ^ words[3] ^ keys[1],
            first & MASK,
        ]
        keys = [(keys[0] + 0x9E3779B97F4A7C15) & MASK, (keys[1] + 0xBB67AE8584CAA73B) & MASK]
    return words


def scenario(transient: dict[str, Any] | None = None, /, **fields: Any) -> Scenario:
    return decode_scenario(
        {
            "num_gpus": 64,
            "load_ms": 30,
            "compute_ms": 300,
            "communication": {"kind": "fixed", "allreduce_ms": 80},
            "variability": {"transient": transient},
        }
        | fields
    )


def step_ms(draw: RankDraw) -> float:
    assert draw.step_ms is not None
    return draw.step_ms


def compute_by_rank(draw: RankDraw) -> dict[int, float]:
    return {row.rank: row.compute_ms for row in draw.ranks}


def test_uniforms_are_philox_words_by_rank() -> None:
    words = [word for block in (1, 2, 3) for word in philox(12345, 7, block)]
    expected = [((word >> 12) + 0.5) / 2**52 for word in words]
    assert upper_uniforms(12345, 7, 0, 12).tolist() == expected
    assert upper_uniforms(12345, 7, 5, 11).tolist() == expected[5:11]


def test_uniforms_of_another_source_or_seed_are_others() -> None:
    here = upper_uniforms(1, 1, 0, 1000)
    for other in (upper_uniforms(1, 2, 0, 1000), upper_uniforms(2, 1, 0, 1000)):
        assert not np.intersect1d(here, other).size
        assert abs(np.corrcoef(here, other)[0, 1]) < 0.15


def test_a_rank_keeps_its_draw_when_the_cluster_grows() -> None:
    small = compute_by_rank(draw_ranks(scenario({"kind": "gamma", "cv": 0.2}), 64))
    large = compute_by_rank(
        draw_ranks(scenario({"kind": "gamma", "cv": 0.2}, num_gpus=1000), limit=1000)
    )
    assert small.items() <= large.items()


def test_chunks_join_without_a_seam() -> None:
    seam = CHUNK_RANKS
    draw = draw_ranks(
        scenario({"kind": "normal", "cv": 0.05}, num_gpus=seam + 3, seed=5), limit=seam + 3
    )
    q = upper_uniforms(5, 1, seam - 3, seam + 3)
    expected = 300 * stats.norm.isf(q, loc=1, scale=0.05)
    drawn = compute_by_rank(draw)
    assert [drawn[rank] for rank in range(seam - 3, seam + 3)] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("transient", "law"),
    [
        ({"kind": "normal", "cv": 0.1}, stats.norm(1, 0.1)),
        ({"kind": "lognormal", "cv": 0.5}, stats.lognorm(0.4723807271, scale=1.25**-0.5)),
        ({"kind": "gamma", "cv": 0.5}, stats.gamma(4, scale=0.25)),
    ],
)
def test_draws_follow_the_distribution(transient: dict[str, Any], law: Any) -> None:
    draw = draw_ranks(scenario(transient, num_gpus=20_000, seed=3), limit=20_000)
    factors = [row.compute_ms / 300 for row in draw.ranks]
    assert stats.kstest(factors, law.cdf).pvalue > 0.01


@pytest.mark.parametrize("kind", ["normal", "lognormal", "gamma"])
def test_a_table_of_quantiles_draws_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = scenario({"kind": kind, "cv": 0.2}, num_gpus=3000)
    exact = draw_ranks(asked, limit=3000)
    monkeypatch.setattr(rank_factors, "MANY_RANKS", 2999)
    by_table = draw_ranks(asked, limit=3000)
    assert [row.rank for row in by_table.ranks] == [row.rank for row in exact.ranks]
    times = [row.compute_ms for row in exact.ranks]
    assert [row.compute_ms for row in by_table.ranks] == pytest.approx(times, rel=1e-10)


def test_no_compute_time_is_negative() -> None:
    draw = draw_ranks(scenario({"kind": "normal", "cv": 0.3}, num_gpus=20_000), limit=20_000)
    times = [row.compute_ms for row in draw.ranks]
    assert min(times) == 0
    assert times.count(0) == pytest.approx(20_000 * stats.norm.cdf(-1 / 0.3), abs=9)
    assert [row.rank for row in draw.ranks if row.compute_ms == 0] == sorted(
        row.rank for row in draw.ranks if row.compute_ms == 0
    )


def test_slow_groups_take_the_first_ranks_in_order() -> None:
    transient = {"kind": "lognormal", "cv": 0.05}
    plain = compute_by_rank(draw_ranks(scenario(transient)))
    groups = [{"count": 2, "speed_fraction": 0.5}, {"count": 1, "speed_fraction": 0.8}]
    draw = draw_ranks(scenario(transient, slow_groups=groups))
    speeds = {row.rank: row.speed_fraction for row in draw.ranks}
    assert [speeds[rank] for rank in range(5)] == [0.5, 0.5, 0.8, 1.0, 1.0]
    for row in draw.ranks:
        assert row.compute_ms == pytest.approx(plain[row.rank] / row.speed_fraction, rel=1e-12)
    assert {row.rank for row in draw.ranks[:2]} == {0, 1}


def test_one_slow_gpu_gives_the_founding_figures() -> None:
    draw = draw_ranks(scenario(slow_groups=[{"count": 1, "speed_fraction": 0.7}]), limit=3)
    assert draw.step_ms == pytest.approx(538.5714285714287, rel=1e-12)
    assert draw.efficiency_fraction == pytest.approx(0.76127, abs=5e-6)
    assert draw.gpu_hours_lost_per_day == pytest.approx(366.684350132626, rel=1e-12)
    assert draw.median_compute_ms == 300
    assert draw.slowest_to_median_gap_ms == pytest.approx(300 / 0.7 - 300, rel=1e-12)
    assert [row.rank for row in draw.ranks] == [0, 1, 2]
    assert [row.wait_ms for row in draw.ranks] == pytest.approx([0, 128.571428571, 128.571428571])
    assert (draw.num_ranks, draw.num_left_out) == (64, 61)


def test_rows_are_the_slowest_first() -> None:
    transient = {"kind": "normal", "cv": 0.05}
    everything = draw_ranks(scenario(transient), limit=4096)
    times = [row.compute_ms for row in everything.ranks]
    assert times == sorted(times, reverse=True)
    assert sorted(row.rank for row in everything.ranks) == list(range(64))
    assert everything.num_left_out == 0
    assert draw_ranks(scenario(transient), limit=7).ranks == everything.ranks[:7]
    assert everything.median_compute_ms == pytest.approx((times[31] + times[32]) / 2, rel=1e-12)
    assert everything.slowest_compute_ms == times[0]
    assert everything.ranks[0].wait_ms == 0
    assert everything.step_ms == 110 + times[0]


def test_no_rows_are_asked_for() -> None:
    draw = draw_ranks(scenario({"kind": "normal", "cv": 0.05}), limit=0)
    assert draw.ranks == []
    assert draw.num_left_out == 64


def test_a_cv_of_zero_is_no_variability() -> None:
    assert draw_ranks(scenario({"kind": "gamma", "cv": 0.0})) == draw_ranks(scenario())


def test_draws_average_to_the_expected_step() -> None:
    source = {"kind": "normal", "cv": 0.05}
    steps = [
        step_ms(draw_ranks(scenario(source, num_gpus=8, seed=seed), 0)) for seed in range(1000)
    ]
    error = np.std(steps) / len(steps) ** 0.5
    assert np.mean(steps) == pytest.approx(110 + 300 * 1.071180015302264, abs=4 * error)


SOURCES = {
    "persistent": (2, 1),
    "node": (3, 8),
    "replica": (4, 2),
    "common": (5, 64),
}


@pytest.mark.parametrize("name", SOURCES)
def test_ranks_share_the_draws_of_their_blocks(name: str) -> None:
    number, shared_by = SOURCES[name]
    source = {"kind": "lognormal", "cv": 0.1}
    size = 2 if name == "replica" else 1
    draw = draw_ranks(scenario(variability={name: source}, tensor_parallel_size=size, seed=9))
    q = upper_uniforms(9, number, 0, -(-64 // shared_by))
    sd = np.log1p(0.01) ** 0.5
    expected = 300 * np.repeat(np.exp(sd * stats.norm.isf(q) - sd**2 / 2), shared_by)
    drawn = compute_by_rank(draw)
    assert [drawn[rank] for rank in range(64)] == pytest.approx(expected, rel=1e-12)


def test_all_sources_multiply() -> None:
    kinds = {name: {"kind": "gamma", "cv": 0.1} for name in ("transient", *SOURCES)}
    spikes = {"probability": 0.2, "slowdown": 3.0}
    episodes = {"rate_per_gpu_day": 0.1, "mean_hours": 24.0, "severity": 1.5}
    together = {**kinds, "spikes": spikes, "episodes": episodes}
    fields: dict[str, Any] = {"tensor_parallel_size": 4, "seed": 11}
    whole = compute_by_rank(draw_ranks(scenario(variability=together, **fields)))
    product = np.full(64, 300.0)
    for name, value in together.items():
        alone = compute_by_rank(draw_ranks(scenario(variability={name: value}, **fields)))
        product *= np.array([alone[rank] for rank in range(64)]) / 300
    assert [whole[rank] for rank in range(64)] == pytest.approx(product, rel=1e-12)
    hit = upper_uniforms(11, 6, 0, 64) < 0.2
    slow = compute_by_rank(draw_ranks(scenario(variability={"spikes": spikes}, **fields)))
    assert [slow[rank] == 900 for rank in range(64)] == hit.tolist()
    busy = upper_uniforms(11, 7, 0, 64) < -np.expm1(-0.1)
    slow = compute_by_rank(draw_ranks(scenario(variability={"episodes": episodes}, **fields)))
    assert [slow[rank] == 450 for rank in range(64)] == busy.tolist()
    assert 0 < busy.sum() < hit.sum() < 64


def test_the_persistently_slowest_stand_by() -> None:
    lasting = {"persistent": {"kind": "normal", "cv": 0.1}}
    both = {**lasting, "transient": {"kind": "normal", "cv": 0.1}}
    all_of_68 = compute_by_rank(draw_ranks(scenario(variability=lasting, num_gpus=68), 68))
    slowest = sorted(all_of_68, key=all_of_68.__getitem__)[-4:]
    spared = draw_ranks(scenario(variability=both, num_spare_gpus=4), 68)
    evicted = draw_ranks(scenario(variability=both, num_gpus=68, num_evicted_gpus=4), 68)
    for draw in (spared, evicted):
        assert {row.rank for row in draw.ranks} == set(range(68)) - set(slowest)
        assert draw.num_ranks == 64
    assert spared.step_ms == evicted.step_ms
    assert evicted.efficiency_fraction is not None
    assert spared.efficiency_fraction == pytest.approx(evicted.efficiency_fraction * 64 / 68)
    slow = [{"count": 3, "speed_fraction": 0.5}]
    last = draw_ranks(scenario(slow_groups=slow, num_evicted_gpus=2))
    assert [row.compute_ms for row in last.ranks[:2]] == [600, 300]


def test_a_step_does_not_wait_for_backup_workers() -> None:
    source = {"kind": "normal", "cv": 0.05}
    plain = draw_ranks(scenario(source), 64)
    backup = {"kind": "backup_workers", "count": 3}
    draw = draw_ranks(scenario(source, synchronization=backup), 64)
    assert draw.slowest_compute_ms == plain.ranks[3].compute_ms
    assert [row.wait_ms for row in draw.ranks[:4]] == [0, 0, 0, 0]
    assert draw.ranks[4].wait_ms > 0
    assert draw.efficiency_fraction == pytest.approx(410 / step_ms(draw) * 61 / 64, rel=1e-14)


def test_what_is_hidden_is_hidden_in_a_drawn_step_too() -> None:
    source = {"kind": "normal", "cv": 0.05}
    plain = draw_ranks(scenario(source))
    slowest = plain.slowest_compute_ms
    buckets = {"kind": "buckets", "num_buckets": 10}
    draw = draw_ranks(scenario(source, overlap=buckets))
    assert draw.slowest_compute_ms == slowest
    assert draw.step_ms == pytest.approx(30 + max(slowest + 8, slowest * 0.4 + 80), rel=1e-14)
    assert draw.efficiency_fraction == pytest.approx(410 / step_ms(draw), rel=1e-14)
    hidden = draw_ranks(scenario(source, overlap={"kind": "none", "load_prefetch": True}))
    assert hidden.step_ms == pytest.approx(slowest + 80, rel=1e-14)


@pytest.mark.parametrize(
    "synchronization",
    [{"kind": "local_steps", "steps": 4}, {"kind": "delayed_update"}],
)
def test_a_step_that_nobody_waits_for_has_no_length_of_its_own(
    synchronization: dict[str, Any],
) -> None:
    draw = draw_ranks(scenario({"kind": "normal", "cv": 0.05}, synchronization=synchronization))
    assert (draw.step_ms, draw.efficiency_fraction, draw.gpu_hours_lost_per_day) == (None,) * 3
    assert draw.slowest_compute_ms > draw.median_compute_ms
    every_step = draw_ranks(
        scenario(
            {"kind": "normal", "cv": 0.05}, synchronization={"kind": "local_steps", "steps": 1}
        )
    )
    assert every_step.step_ms == 110 + every_step.slowest_compute_ms


PIPELINE = {
    "schedule": "1f1b",
    "stages": 2,
    "microbatches": 2,
    "forward_ms": 1,
    "backward_ms": 2,
}


def piped(**fields: Any) -> Scenario:
    return decode_scenario({"num_gpus": 6, "pipeline": PIPELINE, "load_ms": 1} | fields)


def test_a_pipeline_waits_for_its_slowest_replica() -> None:
    # Three replicas of 9 ms; stage 1 of the first is slow, 1 + 2 x (2 + 4) + 2 = 15 ms.
    groups = [{"count": 1, "speed_fraction": 0.5, "placement": 1}]
    draw = draw_ranks(piped(slow_groups=groups, communication={"kind": "fixed", "allreduce_ms": 4}))
    rows = {row.rank: [row.speed_fraction, row.compute_ms, row.wait_ms] for row in draw.ranks}
    assert rows.pop(1) == [0.5, 12, 3]
    assert list(rows.values()) == [[1.0, 6, 9]] * 5
    assert [row.rank for row in draw.ranks] == [1, 0, 2, 3, 4, 5]
    assert (draw.slowest_replica, draw.slowest_makespan_ms, draw.step_ms) == (0, 15, 20)
    assert (draw.slowest_compute_ms, draw.median_compute_ms) == (12, 6)
    assert draw.efficiency_fraction == pytest.approx(11 / 20)
    assert draw.gpu_hours_lost_per_day == pytest.approx(24 * 6 * 9 / 20)
    plain = draw_ranks(scenario())
    assert (plain.slowest_replica, plain.slowest_makespan_ms) == (None, None)


def test_a_pipeline_abandons_whole_replicas() -> None:
    groups = [{"count": 1, "speed_fraction": 0.5, "placement": 1}]
    backup = {"kind": "backup_workers", "count": 1}
    draw = draw_ranks(piped(slow_groups=groups, synchronization=backup))
    assert (draw.slowest_replica, draw.slowest_makespan_ms, draw.step_ms) == (1, 9, 10)
    assert (draw.ranks[0].rank, draw.ranks[0].wait_ms) == (1, 0)
    assert draw.efficiency_fraction == pytest.approx(7 / 10 * 4 / 6)


def test_a_pipeline_that_exchanges_less_often_has_no_step_of_its_own() -> None:
    draw = draw_ranks(piped(synchronization={"kind": "local_steps", "steps": 3}))
    assert (draw.step_ms, draw.efficiency_fraction, draw.slowest_makespan_ms) == (None, None, 9)
