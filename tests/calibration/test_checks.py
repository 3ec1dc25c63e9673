import numpy as np
import pytest

from service.calibration.checks import MAX_CELLS, checked, trend_of
from service.calibration.findings import Remark
from service.calibration.observed import observed_of
from service.calibration.options import CalibrationOptions
from service.calibration.refusals import TimingsRefusedError
from service.calibration.timings import Timings
from tests.calibration.compute_tables import factors_of, timings_of
from tests.calibration.overlap_simulator import Job, simulate
from tests.calibration.overlap_simulator import timings_of as traces_of

DEFAULT = CalibrationOptions()


def table(num_steps: int = 40, num_ranks: int = 8) -> np.ndarray:
    return factors_of((num_steps, num_ranks), rank=0.02, step=0.02, rest=0.01)


def codes(timings: Timings, options: CalibrationOptions = DEFAULT) -> list[str]:
    return [remark.code for remark in checked(timings, options).warnings]


def test_what_is_whole_passes_without_a_word() -> None:
    assert codes(timings_of(table())) == []


@pytest.mark.parametrize(
    ("timings", "code", "words"),
    [
        (timings_of(table(9)), "too_few_steps", "9 steps, at least 10"),
        (timings_of(table(40, 1)), "one_rank_only", "only rank 0 was timed"),
        (timings_of(table(40, 1), world_size=64), "one_rank_only", "only rank 0 of 64"),
        (timings_of(np.full((0, 3), 1.0)), "no_steps", "no rank"),
        (timings_of(np.full((20, 3), np.nan)), "no_steps", "no rank"),
        (timings_of(np.full((20, 3), 300.0)), "no_variation", "300 ms"),
        (timings_of(np.round(table() / 30) * 30), "no_variation", "timer too coarse"),
        (timings_of(table() - 110), "bad_value", "above 0"),
        (timings_of(table(), includes_wait=True), "includes_wait", "the source says"),
        (timings_of(table(), step_ms=table() * 0.9), "inconsistent_times", "mixed up"),
    ],
)
def test_refused_with_the_numbers(timings: Timings, code: str, words: str) -> None:
    with pytest.raises(TimingsRefusedError, match=words) as refusal:
        checked(timings, DEFAULT)
    assert refusal.value.faults[0].code == code


def test_too_few_steps_of_traces_still_tell_their_overlap() -> None:
    run = simulate(Job(), 5, 0)
    with pytest.raises(TimingsRefusedError, match="trainard calibrate --overlap-only"):
        checked(traces_of(run, list(range(8))), DEFAULT)


def test_too_many_cells_are_refused_before_anything_is_computed() -> None:
    cells = np.broadcast_to(np.float64(1.0), (MAX_CELLS // 1000 + 1, 1000))
    with pytest.raises(TimingsRefusedError, match="consecutive steps would do") as refusal:
        checked(timings_of(cells), DEFAULT)
    assert refusal.value.faults[0].code == "too_many_cells"


def test_fewer_gpus_than_were_timed_are_refused() -> None:
    with pytest.raises(TimingsRefusedError, match="num_gpus is 4, but 8 ranks of 1 GPUs"):
        checked(timings_of(table()), CalibrationOptions(num_gpus=4))


def test_gpus_that_are_no_whole_ranks_are_refused() -> None:
    options = CalibrationOptions(num_gpus=34, tensor_parallel_size=4)
    with pytest.raises(TimingsRefusedError, match="34, which is no multiple of 4"):
        checked(timings_of(table()), options)


def test_what_leaves_no_two_ranks_in_common_is_refused() -> None:
    cells = np.full((40, 2), np.nan)
    cells[:20, 0], cells[20:, 1] = 1.0, 2.0
    with pytest.raises(TimingsRefusedError, match="no two ranks"):
        checked(timings_of(cells), DEFAULT)


@pytest.mark.parametrize(
    ("timings", "code"),
    [
        (timings_of(table(20)), "few_steps"),
        (timings_of(table(40, 3)), "few_ranks"),
        (timings_of(table(), world_size=64), "missing_ranks"),
        (timings_of(table(), steps=np.arange(40) * 2), "gaps_in_steps"),
        (timings_of(np.round(table())), "coarse_timer"),
    ],
)
def test_remarks(timings: Timings, code: str) -> None:
    assert codes(timings) == [code]


def test_gaps_in_the_ranks_are_said_once() -> None:
    ranks = np.array([0, 1, 2, 3, 4, 7])
    of_reading = Remark(code="ranks_missing", detail="ranks 5 and 6 are not in the files")
    assert codes(timings_of(table(40, 6), ranks=ranks)) == ["missing_ranks"]
    told = timings_of(table(40, 6), ranks=ranks, warnings=(of_reading,))
    assert codes(told) == ["ranks_missing"]


def test_a_few_cells_over_their_step_are_a_remark() -> None:
    step_ms = table() * 1.5
    step_ms[3, 4] = 1.0
    assert codes(timings_of(table(), step_ms=step_ms)) == ["compute_over_step"]
    assert codes(timings_of(table(), step_ms=table() * 1.5)) == []


def test_the_size_of_the_job_may_be_said_or_written() -> None:
    assert codes(timings_of(table()), CalibrationOptions(num_gpus=64)) == ["missing_ranks"]
    assert codes(timings_of(table()), CalibrationOptions(num_gpus=8)) == []


def test_ranks_and_steps_that_are_hardly_there_are_left_out() -> None:
    cells = table()
    cells[10:, 3] = np.nan
    cells[5, 1:] = np.nan
    found = checked(timings_of(cells), DEFAULT)
    assert found.kept_ranks.tolist() == [True] * 3 + [False] + [True] * 4
    assert found.observed.compute_ms.shape == (39, 7)
    assert [one.count for one in found.left_out] == [1, 1]


def test_a_drift_is_said() -> None:
    cells = table(90)
    assert trend_of(observed_of(timings_of(cells)), 0.02) == []
    cells *= np.linspace(1, 1.3, 90)[:, np.newaxis]
    (remark,) = trend_of(observed_of(timings_of(cells)), 0.02)
    assert remark.code == "not_stationary"
    assert "+" in remark.detail
