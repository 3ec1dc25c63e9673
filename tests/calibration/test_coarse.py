"""The coarse start: every reading has the quantiles that were given, and the interval is honest."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from service.calibration.coarse import StepQuantiles, coarse_start
from service.calibration.findings import Coarse
from service.calibration.refusals import TimingsRefusedError
from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import apply_overrides, decode_scenario

SEED: dict[str, Any] = {
    "num_gpus": 1024,
    "step_p50_ms": 458,
    "step_p95_ms": 470,
    "load_ms": 30,
    "communication_ms": 80,
}


def start(**changed: Any) -> Coarse:
    return coarse_start(StepQuantiles(**{**SEED, **changed}))


def quantiles_of(document: dict[str, Any]) -> tuple[float, float]:
    columns = evaluate(columns_of(decode_scenario(document)), with_spread=False).columns
    return float(columns["step_p50_ms"][0]), float(columns["step_p95_ms"][0])


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"num_gpus": 1},
        {"num_gpus": 2, "step_p50_ms": 200, "step_p95_ms": 260},
        {"num_gpus": 64, "load_ms": None, "communication_ms": None},
        {"num_gpus": 131_072, "step_p95_ms": 458.5},
        {"num_gpus": 10_000_000, "step_p95_ms": 530},
        {"tensor_parallel_size": 8, "gpus_per_node": 16, "period_days": 7},
        {"step_p95_ms": 458},
    ],
)
def test_every_reading_has_the_quantiles_that_were_given(changed: dict[str, Any]) -> None:
    asked = {**SEED, **changed}
    found = start(**changed)
    assert len(found.readings) >= 4
    for reading in found.readings:
        given = (asked["step_p50_ms"], asked["step_p95_ms"])
        assert quantiles_of(reading.overrides) == pytest.approx(given, rel=1e-9)
        # As overrides of another scenario too.
        other = {"num_gpus": 8, "compute_ms": 1, "variability": {"node": None}}
        assert apply_overrides(other, reading.overrides) == reading.overrides
        assert reading.overrides["period_days"] == asked.get("period_days", 30)


def test_a_normal_reading_is_that_of_the_tables_of_the_maximum() -> None:
    # The quantiles of the maximum of 1 024 standard normals, by SciPy.
    p50, p95 = (stats.norm.ppf(p ** (1 / 1024)) for p in (0.5, 0.95))
    sd = (470 - 458) / (p95 - p50)
    compute = 458 - 110 - sd * p50
    (normal, *_) = start().readings
    assert (normal.hypothesis, normal.overrides["variability"]["transient"]["kind"]) == (
        "transient",
        "normal",
    )
    assert normal.compute_ms == pytest.approx(compute, rel=1e-9)
    assert normal.cv == pytest.approx(sd / compute, rel=1e-9)


def test_gamma_and_lognormal_readings_are_those_of_another_library() -> None:
    by_kind = {
        reading.overrides["variability"]["transient"]["kind"]: reading
        for reading in start(num_gpus=64, step_p95_ms=480).readings
        if reading.hypothesis == "transient"
    }
    tail = 1 - np.array([0.5, 0.95]) ** (1 / 64)
    gamma, lognormal = by_kind["gamma"], by_kind["lognormal"]
    shape = gamma.cv**-2
    made = gamma.compute_ms * stats.gamma.isf(tail, shape, scale=1 / shape)
    assert made == pytest.approx([348, 370], rel=1e-9)
    log_sd = np.sqrt(np.log1p(lognormal.cv**2))
    made = lognormal.compute_ms * stats.lognorm.isf(tail, log_sd, scale=np.exp(-(log_sd**2) / 2))
    assert made == pytest.approx([348, 370], rel=1e-9)


def test_the_interval_goes_from_no_loss_to_the_worst_transient_reading() -> None:
    found = start()
    transient = [r.gpu_hours_lost for r in found.readings if r.hypothesis == "transient"]
    assert found.gpu_hours_lost.low == 0
    assert found.gpu_hours_lost.high == max(transient)
    # Ideal over mean step, in 30 days of 1 024 GPUs.
    first = found.readings[0]
    ideal = 110 + first.compute_ms
    lost = 1024 * 720 * (1 - ideal / first.step_mean_ms)
    assert first.gpu_hours_lost == pytest.approx(lost, rel=1e-9)
    for reading in found.readings[3:]:
        assert reading.hypothesis == "common"
        assert reading.gpu_hours_lost == pytest.approx(0, abs=1e-6)
        assert reading.step_mean_ms == pytest.approx(110 + reading.compute_ms)
    assert (found.transient_cv.low, found.transient_cv.high) == (
        0,
        max(r.cv for r in found.readings if r.hypothesis == "transient"),
    )
    assert found.warnings[0].code == "persistent_is_invisible"
    assert [field.path for field in found.unknown] == [
        "slow_groups",
        "variability.persistent",
        "variability.transient",
        "variability.autocorrelation",
    ]


def test_a_slow_gpu_does_not_show() -> None:
    # One GPU at 70 % beside jitter of 1 %: 30 + 300 / 0.7 + 80 is above what jitter makes.
    slow = {
        "num_gpus": 1024,
        "load_ms": 30,
        "compute_ms": 300,
        "communication": {"kind": "fixed", "allreduce_ms": 80},
        "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
        "variability": {"transient": {"kind": "normal", "cv": 0.01}},
    }
    p50, p95 = quantiles_of(slow)
    columns = evaluate(columns_of(decode_scenario(slow)), with_spread=False).columns
    found = start(step_p50_ms=p50, step_p95_ms=p95)
    # 176 008 GPU-hours are lost, of which the quantiles show less than 100 000.
    assert columns["gpu_hours_lost"][0] > 170_000
    assert found.gpu_hours_lost.high is not None
    assert found.gpu_hours_lost.high < 100_000


def test_equal_quantiles_rule_out_jitter_and_nothing_else() -> None:
    found = start(step_p95_ms=458)
    assert {reading.cv for reading in found.readings} == {0}
    assert found.gpu_hours_lost.high == pytest.approx(0, abs=1e-6)
    assert "no_spread" in {warning.code for warning in found.warnings}


def test_unknown_phases_leave_ends_open() -> None:
    found = start(load_ms=None, communication_ms=None)
    assert (found.transient_cv.low, found.transient_cv.high) == (0, None)
    assert found.compute_ms.low is None
    assert found.compute_ms.high == max(reading.compute_ms for reading in found.readings)
    assert [field.path for field in found.unknown][-2:] == ["load_ms", "communication.allreduce_ms"]
    assert "phases_unknown" in {warning.code for warning in found.warnings}
    # The normal reading's loss does not depend on them: its spread in ms is the same.
    assert found.readings[0].gpu_hours_lost == pytest.approx(start().readings[0].gpu_hours_lost)
    known = start(load_ms=None)
    assert [field.path for field in known.unknown][-1:] == ["load_ms"]


def test_a_family_that_cannot_be_is_left_out() -> None:
    # Of one GPU, 1.5 times p50 at p95 is a normal cv of 0.304, and a scenario takes 0.3.
    found = start(num_gpus=1, step_p50_ms=210, step_p95_ms=260)
    kinds = [reading.overrides["variability"] for reading in found.readings]
    assert [next(iter(kind.values()))["kind"] for kind in kinds] == ["lognormal", "gamma"] * 2
    assert [w.code for w in found.warnings] == ["persistent_is_invisible", "family_left_out"]
    assert "no normal law" in found.warnings[-1].detail


def test_a_heavy_tail_is_remarked() -> None:
    found = start(num_gpus=4, load_ms=0, communication_ms=0, step_p50_ms=100, step_p95_ms=160)
    assert "heavy_tail" in {warning.code for warning in found.warnings}


@pytest.mark.parametrize(
    ("changed", "fields", "sentence"),
    [
        ({"step_p95_ms": 457}, ["step_p95_ms"], "step_p95_ms is 457, below step_p50_ms 458"),
        ({"load_ms": 400}, ["load_ms"], "add up to 480"),
        ({"load_ms": None, "communication_ms": 458}, ["communication_ms"], "add up to 458"),
        # Lognormal: exp(sqrt(log 2) (3.890 - 3.204)), the quantiles of the maximum of normals.
        ({"step_p95_ms": 4000}, ["step_p95_ms"], "at most 1.77 times even at a cv of 1"),
        ({"tensor_parallel_size": 3}, ["tensor_parallel_size"], "3"),
        ({"step_p95_ms": 1, "load_ms": 500}, ["step_p95_ms", "load_ms"], "below"),
    ],
)
def test_what_no_run_has_is_refused(
    changed: dict[str, Any], fields: list[str], sentence: str
) -> None:
    with pytest.raises(TimingsRefusedError, match=sentence) as caught:
        start(**changed)
    assert [fault.field for fault in caught.value.faults] == fields
