"""Loading that differs between ranks, against steps that are simulated rank by rank."""

import numpy as np
import pytest

from service.calibration.findings import Findings
from service.calibration.fit import fit
from service.calibration.loading import Loading, Loads, loading_of
from service.calibration.options import CalibrationOptions
from service.calibration.timings import FloatArray
from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import apply_overrides, decode_scenario
from tests.calibration.compute_tables import timings_of

SHAPE = (60, 32)
TRANSFER_MS = 80.0


def compute(seed: int = 1) -> FloatArray:
    rng = np.random.default_rng(seed)
    found: FloatArray = (
        300.0
        * (1 + 0.03 * rng.standard_normal(SHAPE[1]))
        * (1 + 0.01 * rng.standard_normal((SHAPE[0], 1)))
        * (1 + 0.02 * rng.standard_normal(SHAPE))
    )
    return found


def run(compute_ms: FloatArray, load_ms: FloatArray) -> tuple[Findings, float]:
    """What is found of a run in which all wait for the rank that comes last, and its mean step."""
    ends = load_ms + compute_ms
    step = ends.max(axis=1, keepdims=True) + TRANSFER_MS
    timings = timings_of(
        compute_ms,
        load_ms=load_ms,
        communication_ms=step - ends,
        step_ms=np.broadcast_to(step, SHAPE),
    )
    return fit(timings, CalibrationOptions(load_is_prefetched=False)), float(step.mean())


def step_of(findings: Findings) -> float:
    scenario = decode_scenario(apply_overrides({}, findings.proposal.overrides))
    found = evaluate(columns_of(scenario), with_spread=False, with_causes=False)
    return float(found.columns["step_mean_ms"][0])


def remarks_of(findings: Findings) -> dict[str, str]:
    return {one.code: one.detail for one in findings.warnings}


def loads_of(load_ms: FloatArray, compute_ms: FloatArray, *, is_alone: bool = False) -> Loads:
    num_steps, num_ranks = load_ms.shape
    return Loads(load_ms, compute_ms, np.arange(num_steps), np.arange(num_ranks), is_alone)


def found_in(loads: Loads) -> Loading:
    found = loading_of(loads, 0.9)
    assert found is not None
    return found


def test_slow_loading_by_turns_is_in_the_step_and_said() -> None:
    load = 30 + np.random.default_rng(0).exponential(20, SHAPE)
    findings, step_ms = run(compute(), load)
    assert step_of(findings) == pytest.approx(step_ms, rel=0.005)
    assert findings.load_ms is not None
    # Far above the median, and far below the longest of 32, which need not be the slowest.
    assert 70 < findings.load_ms.value < 130
    remark = remarks_of(findings)["load_differs"]
    assert "ranks load slowly by turns" in remark
    assert f"{np.median(load, axis=1).mean():.4g} ms" in remark
    assert "slow_loading_ranks" not in remarks_of(findings)


def test_a_rank_that_loads_slowly_is_named_with_what_to_do() -> None:
    load = 30 + np.random.default_rng(0).uniform(-0.2, 0.2, SHAPE)
    load[:, 7] = 90
    findings, step_ms = run(compute(), load)
    assert step_of(findings) == pytest.approx(step_ms, rel=0.005)
    remark = remarks_of(findings)["slow_loading_ranks"]
    assert remark.startswith("rank 7 loads 90 ms, 3 times as long; the others load ")
    assert "load_differs" not in remarks_of(findings)
    (unknown,) = [one for one in findings.proposal.unknown if one.path == "variability.load"]
    assert "ranks 7 load slower" in unknown.reason
    assert "loader workers" in unknown.what_to_do
    (value,) = [one for one in findings.proposal.values if one.path == "load_ms"]
    assert "holds at this size only" in value.reason


def test_the_slow_rank_aside_others_may_load_slowly_by_turns() -> None:
    load = 30 + np.random.default_rng(0).exponential(20, SHAPE)
    load[:, 7] += 150
    findings, step_ms = run(compute(), load)
    assert step_of(findings) == pytest.approx(step_ms, rel=0.005)
    found = remarks_of(findings)
    assert "rank 7 " in found["slow_loading_ranks"]
    assert "(the slow ones aside)" in found["load_differs"]


def test_a_rank_that_loads_late_and_computes_fast_holds_nobody_up() -> None:
    compute_ms = np.tile([100.0, 100, 100, 60], (20, 1))
    load = np.tile([0.0, 0, 0, 30], (20, 1))
    found = found_in(loads_of(load, compute_ms))
    assert found.load_ms.value == 0
    (remark,) = found.remarks
    # Of nothing there is no multiple.
    assert remark.detail.startswith("rank 3 loads 30 ms; the others load 0 ms")


def test_equal_loads_are_as_they_are() -> None:
    load = np.full(SHAPE, 30.0)
    findings, step_ms = run(compute(), load)
    assert findings.load_ms is not None
    assert findings.load_ms.value == pytest.approx(30, rel=1e-9)
    assert step_of(findings) == pytest.approx(step_ms, rel=0.005)
    assert not {"load_differs", "slow_loading_ranks"} & set(remarks_of(findings))


def test_beside_the_step_before_and_in_a_pipeline_the_longest_counts() -> None:
    compute_ms = np.tile([100.0, 100, 100, 60], (20, 1))
    load = np.tile([10.0, 10, 10, 30], (20, 1))
    found = found_in(loads_of(load, compute_ms, is_alone=True))
    assert found.load_ms.value == pytest.approx(30)
    assert found.reason.startswith("the longest loading of any rank")


def test_of_steps_with_missing_ranks_only_where_there_are_no_others() -> None:
    compute_ms = np.tile([100.0, 90], (12, 1))
    load = np.tile([10.0, 40], (12, 1))
    load[:2, 1] = np.nan
    whole = found_in(loads_of(load, compute_ms))
    assert whole.load_ms.value == pytest.approx(130 - 100)
    assert "hardly any step" not in whole.reason
    load[:3, 1] = np.nan
    part = found_in(loads_of(load, compute_ms))
    assert part.load_ms.value == pytest.approx((3 * 10 + 9 * 30) / 12)
    assert "hardly any step" in part.reason


def test_without_two_steps_nothing_is_known() -> None:
    load = np.full((20, 4), np.nan)
    load[3] = 10.0
    assert loading_of(loads_of(load, np.full((20, 4), 100.0)), 0.9) is None
