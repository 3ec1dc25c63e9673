import numpy as np
import pytest

from service.calibration.findings import (
    Estimate,
    HiddenShare,
    OverlapAudit,
    Proposal,
    Verdict,
)
from service.calibration.fitted import fitted_of
from service.calibration.observed import observed_of
from service.calibration.options import CalibrationOptions
from service.calibration.phases import phases_of
from service.calibration.proposal import proposal_of
from service.calibration.refusals import TimingsRefusedError
from service.calibration.step_match import Facts
from service.calibration.timings import Timings
from service.calibration.variability import slow_kinds
from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import apply_overrides, decode_scenario
from tests.calibration.compute_tables import factors_of, passes_of, timings_of, trace

DEFAULT = CalibrationOptions()


def proposed(
    timings: Timings,
    options: CalibrationOptions = DEFAULT,
    overlap: OverlapAudit | None = None,
) -> Proposal:
    everything = (
        np.ones(timings.num_steps, dtype=np.bool_),
        np.ones(timings.num_ranks, dtype=np.bool_),
    )
    facts = Facts(
        timings=timings,
        options=options,
        fitted=fitted_of(observed_of(timings), options.confidence),
        phases=phases_of(timings, *everything, options.confidence),
        overlap=overlap,
    )
    found = proposal_of(facts)
    # Whatever it is, a bare scenario takes it.
    decode_scenario(apply_overrides({"num_gpus": 1, "compute_ms": 1.0}, found.overrides))
    assert [value.path for value in found.values] == list(found.overrides)
    assert not {unknown.path for unknown in found.unknown} & set(found.overrides)
    return found


def table(num_ranks: int = 16, *, rank: float = 0.02, rest: float = 0.01) -> np.ndarray:
    return factors_of((60, num_ranks), rank=rank, step=0.02, rest=rest)


def audit(verdict: Verdict, num_collectives: float | None = 8.4) -> OverlapAudit:
    return OverlapAudit(
        verdict=verdict,
        route="traces",
        hidden_share=HiddenShare(low=0.8, high=0.9, naive_ratio=None),
        communication_ms=Estimate(value=42.0, low=40.0, high=44.0, method="bootstrap"),
        wait_ms=None,
        exposed_ms=None,
        num_collectives_per_step=num_collectives,
        reasons=[],
        experiments=[],
    )


def test_a_plain_table() -> None:
    cells = table()
    cells[:, 3] /= 0.7
    found = proposed(timings_of(cells, load_ms=np.full(cells.shape, 30.0)))
    assert found.overrides["num_gpus"] == 16
    assert found.overrides["compute_ms"] == pytest.approx(100, rel=0.02)
    assert found.overrides["load_ms"] == 30
    (slow,) = found.overrides["slow_groups"]
    assert slow["count"] == 1
    assert slow["speed_fraction"] == pytest.approx(0.7, rel=0.05)
    for name in ("persistent", "transient", "common"):
        assert found.overrides[f"variability.{name}"]["cv"] == pytest.approx(0.02, rel=0.7)
    assert found.overrides["variability.autocorrelation"] == 0
    unknown = {one.path for one in found.unknown}
    assert {"failures", "communication", "overlap", "rates", "tensor_parallel_size"} <= unknown
    assert "overlap.load_prefetch" in unknown
    assert "load_ms" not in unknown


def test_st_with_its_passes_is_a_pipeline() -> None:
    timings = trace("st", with_stages=True)
    passes = passes_of(timings.compute_ms, 4)
    fields = {name: getattr(timings, name) for name in ("steps", "stages", "replicas", "ranks")}
    found = proposed(timings_of(timings.compute_ms, passes=passes, **fields))
    pipeline = found.overrides["pipeline"]
    assert (pipeline["stages"], pipeline["microbatches"]) == (4, 4)
    # the last stage takes 1.63 times as long as the others
    forward = pipeline["forward_ms"]
    assert forward[3] / np.mean(forward[:3]) == pytest.approx(1.63, abs=0.01)
    assert found.overrides["slow_groups"] == []
    assert found.overrides["backward_fraction"] == pytest.approx(2 / 3, abs=1e-5)
    assert found.overrides["compute_ms"] == pytest.approx(timings.compute_ms.mean(), rel=1e-3)


def test_ars_slow_worker_sits_in_its_stage() -> None:
    timings = trace("ar", with_stages=True)
    fields = {name: getattr(timings, name) for name in ("steps", "stages", "replicas", "ranks")}
    passes = passes_of(timings.compute_ms, 32)
    found = proposed(timings_of(timings.compute_ms, passes=passes, num_gpus_per_rank=4, **fields))
    assert found.overrides["num_gpus"] == 64
    assert found.overrides["tensor_parallel_size"] == 4
    (slow,) = found.overrides["slow_groups"]
    assert (slow["count"], slow["placement"]) == (1, 0)
    # 2.355 times the time of its stage's other ranks, which are the slowest of 4 GPUs each
    assert 1 / slow["speed_fraction"] == pytest.approx(2.355, rel=0.015)


@pytest.mark.parametrize(
    ("stages", "num_missing"),
    [(np.arange(16) // 4 + 1, 0), (np.zeros(16, int), 0), (None, 0), (np.arange(16) // 4, 4)],
)
def test_no_pipeline_without_numbered_stages_and_passes(
    stages: np.ndarray | None, num_missing: int
) -> None:
    cells = table()
    passes = passes_of(cells, 4)
    passes.forward_ms[:, :num_missing] = np.nan
    found = proposed(timings_of(cells, stages=stages, passes=passes))
    assert "pipeline" in {one.path for one in found.unknown}


def test_a_pipeline_that_the_model_refuses_is_left_out() -> None:
    # 18 GPUs are no whole replicas of 4 stages
    cells = table()
    passes = passes_of(cells, 4)
    timings = timings_of(cells, stages=np.arange(16) // 4, passes=passes)
    found = proposed(timings, CalibrationOptions(num_gpus=18))
    assert "pipeline" not in found.overrides
    (left_out,) = [one for one in found.unknown if one.path == "pipeline"]
    assert "no whole replicas" in left_out.reason


def test_many_slow_ranks_of_a_pipeline_become_fewer_groups() -> None:
    cells = table(128)
    slow = np.arange(0, 128, 8)
    cells[:, slow] *= np.linspace(1.5, 4, 16)
    timings = timings_of(cells, stages=np.arange(128) % 4, passes=passes_of(cells, 4))
    found = proposed(timings)
    assert "pipeline" in found.overrides
    assert sum(group["count"] for group in found.overrides["slow_groups"]) == 16


def test_too_many_kinds_of_gpus_in_a_node_become_fewer() -> None:
    cells = table(64)
    cells[:, :12] *= np.linspace(1.2, 3, 12)
    found = proposed(timings_of(cells, nodes=np.arange(64) // 8))
    assert found.overrides["gpus_per_node"] == 8
    # 8 GPUs of a node: at most 5 kinds, nominal among them
    assert len(found.overrides["slow_groups"]) <= 4
    assert sum(group["count"] for group in found.overrides["slow_groups"]) == 12


def test_slow_gpus_matter_more_than_what_a_large_node_shares() -> None:
    cells = factors_of((12, 1200), rank=0.02, step=0.02, rest=0.01)
    cells[:, 600:] *= 1.05
    cells[:, 7] *= 2
    found = proposed(timings_of(cells, nodes=np.arange(1200) // 600))
    assert found.overrides["slow_groups"][0]["count"] == 1
    (left_out,) = [one for one in found.unknown if one.path == "variability.node"]
    assert "at most 512" in left_out.reason


def test_wide_spreads_are_lognormal() -> None:
    rng = np.random.default_rng(4)
    cells = 100 * np.exp(0.5 * rng.standard_normal((80, 20)))
    found = proposed(timings_of(cells))
    assert found.overrides["variability.transient"]["kind"] in ("lognormal", "gamma")


def test_what_was_not_seen_is_proposed_as_none() -> None:
    cells = np.random.default_rng(1).normal(100, 3, (60, 6))
    found = proposed(timings_of(cells))
    none = [value for value in found.values if value.value is None]
    assert none
    assert all(value.low == 0 and value.high is not None for value in none)


def test_spikes_and_memory() -> None:
    rng = np.random.default_rng(2)
    scores = rng.standard_normal((200, 16))
    for step in range(1, 200):
        scores[step] = 0.6 * scores[step - 1] + 0.8 * scores[step]
    cells = 100 * (1 + 0.01 * scores)
    cells[rng.random(cells.shape) < 0.004] *= 2
    found = proposed(timings_of(cells))
    spikes = found.overrides["variability.spikes"]
    assert spikes["probability"] == pytest.approx(0.004, rel=0.6)
    assert spikes["slowdown"] == pytest.approx(2, rel=0.02)
    assert found.overrides["variability.autocorrelation"] == pytest.approx(0.6, abs=0.08)
    grouped = proposed(timings_of(cells), CalibrationOptions(tensor_parallel_size=4))
    assert grouped.overrides["variability.spikes"]["probability"] == pytest.approx(
        spikes["probability"] / 4, rel=0.01
    )
    assert "variability.autocorrelation" in {one.path for one in grouped.unknown}


def test_a_group_in_lockstep_is_slowest_as_often_as_it_was() -> None:
    cells = table(rank=0.03, rest=0.02)
    one = proposed(timings_of(cells))
    four = proposed(
        timings_of(cells, replicas=np.arange(16) // 2), CalibrationOptions(tensor_parallel_size=4)
    )
    assert four.overrides["num_gpus"] == 64
    assert four.overrides["variability.persistent"]["cv"] > 0.03
    assert "variability.transient" not in four.overrides
    slowest = [
        evaluate(
            columns_of(
                decode_scenario(
                    apply_overrides({"num_gpus": 1, "compute_ms": 1.0}, found.overrides)
                )
            ),
            with_spread=False,
            with_causes=False,
        ).columns["slowest_compute_mean_ms"][0]
        for found in (one, four)
    ]
    assert slowest[1] == pytest.approx(slowest[0], rel=0.01)


def test_groups_that_differ_too_much_for_their_gpus() -> None:
    cells = np.linspace(0.3, 1.7, 24) * table(24)
    found = proposed(timings_of(cells), CalibrationOptions(tensor_parallel_size=8))
    assert "variability.persistent" in {one.path for one in found.unknown}


def test_communication_overlap_and_loading() -> None:
    cells = table()
    timings = timings_of(cells, load_ms=np.full(cells.shape, 30.0))
    prefetched = CalibrationOptions(load_is_prefetched=True)
    found = proposed(timings, prefetched, audit("overlaps"))
    assert found.overrides["communication"] == {"kind": "fixed", "allreduce_ms": 42.0}
    assert found.overrides["overlap"] == {
        "kind": "buckets",
        "num_buckets": 8,
        "load_prefetch": True,
    }
    found = proposed(timings, DEFAULT, audit("does_not_overlap"))
    assert found.overrides["overlap"] == {"kind": "none"}
    found = proposed(timings, prefetched, audit("overlaps", None))
    assert found.overrides["overlap"] == {"kind": "none", "load_prefetch": True}
    found = proposed(timings, DEFAULT, audit("cannot_tell"))
    (unknown,) = [one for one in found.unknown if one.path == "overlap"]
    assert "experiments" in unknown.what_to_do
    waits = timings_of(cells, communication_ms=np.full(cells.shape, 80.0))
    assert proposed(waits).overrides["communication"]["allreduce_ms"] == 80


def test_without_a_communication_column_the_rest_of_the_step_is_taken() -> None:
    cells, load = table(), np.full(table().shape, 30.0)
    step = np.repeat((cells + load).max(axis=1, keepdims=True) + 80, cells.shape[1], axis=1)
    found = proposed(timings_of(cells, load_ms=load, step_ms=step))
    assert found.overrides["communication"]["allreduce_ms"] == pytest.approx(80)
    (value,) = [one for one in found.values if one.path == "communication"]
    assert "optimizer and gaps alike" in value.reason
    # Beside a prefetched load nothing is left, and in a pipeline's step there are bubbles.
    short = proposed(timings_of(cells, load_ms=load, step_ms=step - 100))
    staged = proposed(timings_of(cells, step_ms=step, stages=np.arange(cells.shape[1]) % 2))
    assert "communication" not in short.overrides
    assert "communication" not in staged.overrides


def test_a_curve_of_messages_is_no_time_per_step() -> None:
    found = proposed(timings_of(table(), nccl_tests="# nccl-tests"))
    (unknown,) = [one for one in found.unknown if one.path == "communication"]
    assert "message_bytes" in unknown.what_to_do


def test_the_size_of_the_job() -> None:
    seen = timings_of(table(), world_size=32)
    assert proposed(seen).overrides["num_gpus"] == 32
    assert "of which 16 were timed" in proposed(seen).values[0].reason
    said = proposed(seen, CalibrationOptions(num_gpus=64))
    assert said.overrides["num_gpus"] == 64


def test_a_size_beyond_the_model_is_refused() -> None:
    with pytest.raises(TimingsRefusedError, match="makes no scenario") as refusal:
        proposed(timings_of(table(), world_size=100_000_000))
    assert refusal.value.faults[0].code == "not_a_scenario"


def test_a_value_that_the_model_refuses_is_left_out_with_its_reason() -> None:
    found = proposed(timings_of(table(), load_ms=np.full((60, 16), 1e13)))
    assert "load_ms" not in found.overrides
    (left_out,) = [one for one in found.unknown if one.path == "load_ms"]
    assert left_out.reason.startswith("found, but the model refuses it")


def test_slow_ranks_of_about_one_speed_are_one_group() -> None:
    times: list[tuple[float, int | None]] = [(2.0, None), (2.01, None), (3.0, None), (1.5, None)]
    found = slow_kinds(times, 16, 1.0)
    assert [kind.count for kind in found] == [1, 2, 1]
    speeds = [kind.speed_fraction for kind in found]
    assert speeds == pytest.approx([1 / 3, 2 / 4.01, 1 / 1.5], rel=1e-5)
    # as two groups: the slowest keeps its own
    assert [kind.count for kind in slow_kinds(times, 2, 1.0)] == [1, 3]
