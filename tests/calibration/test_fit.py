import time

import msgspec
import numpy as np
import pytest

from service.calibration.findings import Findings
from service.calibration.fit import fit
from service.calibration.fitted import fitted_of
from service.calibration.observed import observed_of
from service.calibration.options import CalibrationOptions
from service.calibration.refusals import TimingsRefusedError
from service.model.scenario import apply_overrides, decode_scenario
from tests.calibration.compute_tables import factors_of, timings_of, trace
from tests.calibration.random_timings import timings_of_seed

DEFAULT = CalibrationOptions()


def test_ar() -> None:
    found = fit(trace("ar", with_stages=True, gpus_per_rank=4), DEFAULT)
    (slow,) = found.outliers
    assert (slow.rank, slow.kind, slow.stage) == (0, "slow", 0)
    assert 1 / slow.speed_fraction.value == pytest.approx(2.355, abs=0.002)
    assert slow.speed_fraction.low is not None
    assert slow.speed_fraction.high is not None
    assert slow.speed_fraction.low < 1 / 2.355 < slow.speed_fraction.high
    assert found.gaps.most_often_slowest_rank == 0
    assert found.gaps.most_often_slowest_fraction == 1
    assert found.ranks[0].rank == 0
    assert found.ranks[0].to_median_ratio == pytest.approx(2.355, abs=0.01)
    assert found.healthy.persistent_cv is not None
    assert 0.002 < found.healthy.persistent_cv.value < 0.01
    assert found.source.steps_have_gaps
    assert found.held_out is not None


def test_st() -> None:
    without = fit(trace("st", with_stages=False), DEFAULT)
    assert [one.rank for one in without.outliers] == [6, 7]
    assert fit(trace("st", with_stages=True), DEFAULT).outliers == []


def test_a_changed_and_a_fast_rank_are_remarks_and_no_slow_gpus() -> None:
    cells = factors_of((120, 16), rank=0.01, step=0.02, rest=0.01)
    cells[40:70, 4] *= 1.5
    cells[:, 9] *= 0.7
    found = fit(timings_of(cells, nodes=np.arange(16) // 4), DEFAULT)
    changed, fast = found.outliers
    assert (changed.kind, changed.from_step, changed.to_step, changed.node) == (
        "changed",
        40,
        69,
        1,
    )
    assert changed.speed_fraction.value == pytest.approx(1 / 1.5, rel=0.02)
    assert fast.kind == "fast"
    assert {"fast_ranks", "changed_ranks"} <= {remark.code for remark in found.warnings}
    assert found.proposal.overrides["slow_groups"] == []


def test_what_the_scenario_does_not_say_is_a_remark() -> None:
    cells = factors_of((120, 16), rank=0.01, step=0.02, rest=0.01)
    # an episode: in the steps, but no part of the proposal
    cells[20:90, 4] *= 2
    found = fit(timings_of(cells), DEFAULT)
    assert "held_out_off" in {remark.code for remark in found.warnings}


def test_an_overlap_is_audited_where_it_can_be() -> None:
    cells = factors_of((40, 8), rank=0.01, step=0.02, rest=0.01)
    waits = cells.max(axis=1, keepdims=True) - cells + 50
    found = fit(timings_of(cells, communication_ms=waits, step_ms=cells + waits), DEFAULT)
    assert found.overlap is not None
    assert found.communication_ms == found.overlap.communication_ms
    assert found.step_mean_ms is not None


def test_a_stage_of_one_slow_rank_has_no_interval() -> None:
    cells = factors_of((40, 4), rank=0.01, step=0.02, rest=0.01)
    cells[:, 3] *= 2
    found = fit(timings_of(cells, stages=np.array([0, 0, 1, 1])), DEFAULT)
    (slow,) = found.outliers
    assert slow.rank == 3
    assert slow.speed_fraction.value == pytest.approx(0.5, rel=0.05)


def test_ranks_that_are_all_apart_are_refused() -> None:
    cells = factors_of((40, 3), rank=0.0, step=0.02, rest=0.01) * [1, 2, 4]
    with pytest.raises(TimingsRefusedError, match="2 stand apart") as refusal:
        fit(timings_of(cells), DEFAULT)
    assert refusal.value.faults[0].code == "too_few_ranks"


def test_steps_without_two_usual_ranks_are_refused() -> None:
    cells = factors_of((8, 3), rank=0.0, step=0.02, rest=0.01)
    cells[4:, 1:] = np.nan
    with pytest.raises(TimingsRefusedError, match="in only 4 steps"):
        fitted_of(observed_of(timings_of(cells)), 0.9)


def test_the_same_timings_give_the_same_bytes() -> None:
    timings = trace("ar", with_stages=True)
    first, second = (msgspec.json.encode(fit(timings, DEFAULT)) for _ in range(2))
    assert first == second
    assert msgspec.json.decode(first, type=Findings, strict=True) == fit(timings, DEFAULT)


def check_numbers(value: object) -> None:
    if isinstance(value, float):
        assert np.isfinite(value)
    elif isinstance(value, list):
        for part in value:
            check_numbers(part)
    elif isinstance(value, dict):
        if "method" in value and value["low"] is not None and value["high"] is not None:
            assert value["low"] <= value["value"] <= value["high"]
        for part in value.values():
            check_numbers(part)


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_whatever_comes_is_fitted_or_refused(first: int) -> None:
    fitted = 0
    for seed in range(first, first + 20):
        try:
            found = fit(timings_of_seed(seed), DEFAULT)
        except TimingsRefusedError:
            continue
        fitted += 1
        check_numbers(msgspec.to_builtins(found))
        bare = {"num_gpus": 1, "compute_ms": 1.0}
        decode_scenario(apply_overrides(bare, found.proposal.overrides))
    assert fitted >= 8


def test_a_quarter_of_a_million_cells_take_less_than_seconds() -> None:
    cells = factors_of((250, 1024), rank=0.02, step=0.02, rest=0.02)
    started = time.process_time()
    fit(timings_of(cells, nodes=np.arange(1024) // 8), DEFAULT)
    # measured: 0.4 s on one core
    assert time.process_time() - started < 5
