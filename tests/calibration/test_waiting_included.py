import numpy as np
import pytest

from service.calibration.fit import fit
from service.calibration.options import CalibrationOptions
from service.calibration.refusals import TimingsRefusedError
from service.calibration.waiting_included import check_said, waiting_of
from tests.calibration.compute_tables import factors_of, timings_of, trace


def test_four_ranks_behind_a_barrier() -> None:
    # traceml, issue 252: one of four ranks 200 ms late, timed behind the barrier
    step = np.array([293.0, 292.2, 293.0, 293.1])
    cells = step * (1 + 0.05 * np.random.default_rng(0).standard_normal((30, 1)))
    waiting = waiting_of(cells, None)
    assert waiting.is_included
    assert waiting.within_step == pytest.approx(
        np.sqrt(np.sum((step / 293 - 1) ** 2) / 3), rel=1e-9
    )


@pytest.mark.parametrize("with_stages", [False, True])
@pytest.mark.parametrize("name", ["st", "ar"])
def test_the_public_traces_hold_no_wait(name: str, with_stages: bool) -> None:  # noqa: FBT001
    timings = trace(name, with_stages=with_stages)
    assert not waiting_of(timings.compute_ms, timings.stages).is_included


def test_an_even_cluster_with_even_steps_is_no_sign() -> None:
    cells = factors_of((40, 8), rank=0.001, step=0.002, rest=0.001)
    assert not waiting_of(cells, None).is_included


def test_one_rank_that_differs_tells_ranks_apart() -> None:
    cells = factors_of((40, 8), rank=0, step=0.05, rest=0.0001)
    assert waiting_of(cells, None).is_included
    cells[:, 3] *= 1.2
    assert not waiting_of(cells, None).is_included


def test_stages_of_one_rank_say_nothing() -> None:
    cells = factors_of((40, 2), rank=0, step=0.05, rest=0.0001)
    assert waiting_of(cells, np.array([0, 1])).within_step == 0


def behind_a_barrier(step: float, timer: float, slow: float = 0.7) -> np.ndarray:
    """Every rank shows the slowest of eight, one of which is slow, but for its timer."""
    rng = np.random.default_rng(5)
    cells = factors_of((60, 8), rank=0.005, step=step, rest=0.003)
    cells[:, 3] /= slow
    slowest = cells.max(axis=1, keepdims=True)
    return np.asarray(slowest * (1 + timer * rng.standard_normal(cells.shape)))


def codes(cells: np.ndarray, *, includes_wait: bool | None = None) -> list[str]:
    timings = timings_of(cells, includes_wait=includes_wait)
    try:
        found = fit(timings, CalibrationOptions())
    except TimingsRefusedError as refusal:
        return ["refused", *(fault.code for fault in refusal.faults)]
    return [remark.code for remark in found.warnings]


def test_what_the_source_says_is_refused() -> None:
    with pytest.raises(TimingsRefusedError, match="the source says"):
        check_said(includes_wait=True)
    check_said(includes_wait=False)
    check_said(includes_wait=None)


@pytest.mark.parametrize(("step", "timer"), [(0.05, 0.001), (0.02, 0.002)])
def test_equal_ranks_of_uneven_steps_are_refused(step: float, timer: float) -> None:
    cells = behind_a_barrier(step, timer)
    assert codes(cells) == ["refused", "includes_wait"]
    assert codes(cells, includes_wait=False) == ["ranks_nearly_equal"]


@pytest.mark.parametrize(
    ("step", "timer"),
    # The barrier is steady with one slow rank, or the timer as coarse as healthy ranks differ
    [(0.002, 0.001), (0.0, 0.001), (0.01, 0.004), (0.03, 0.004), (0.1, 0.006)],
)
def test_what_may_be_waiting_is_a_remark(step: float, timer: float) -> None:
    cells = behind_a_barrier(step, timer)
    assert codes(cells) == ["ranks_nearly_equal"]
    assert codes(cells, includes_wait=False) == []


def test_ranks_that_are_told_apart_are_not_behind_a_barrier() -> None:
    even = factors_of((60, 64), rank=0.0, step=0.05, rest=0.001)
    assert codes(even) == ["refused", "includes_wait"]
    slow, fast = even.copy(), even.copy()
    slow[:, 5] *= 1.04
    assert codes(slow) == []
    # A fast rank was timed before the barrier, the others may still be behind it.
    fast[:, 5] /= 1.04
    assert codes(fast) == ["ranks_nearly_equal", "fast_ranks"]
    # What stays with ranks is more than timers differ by.
    lasting = factors_of((60, 16), rank=0.0045, step=0.01, rest=0.0005)
    assert codes(lasting) == []


@pytest.mark.parametrize("name", ["st", "ar"])
def test_nothing_is_said_of_the_public_traces(name: str) -> None:
    for with_stages in (False, True):
        found = fit(trace(name, with_stages=with_stages), CalibrationOptions())
        assert "ranks_nearly_equal" not in {remark.code for remark in found.warnings}
