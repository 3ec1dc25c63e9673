import numpy as np
import pytest

from service.calibration.phase_checks import check_phases
from service.calibration.refusals import TimingsRefusedError
from service.calibration.timings import Timings
from tests.calibration.compute_tables import timings_of

SHAPE = (50, 8)
STEP_MS = np.full(SHAPE, 422.0)


def table(load_ms: float, compute_ms: float, communication_ms: float, **more: object) -> Timings:
    return timings_of(
        np.full(SHAPE, compute_ms),
        load_ms=np.full(SHAPE, load_ms),
        communication_ms=np.full(SHAPE, communication_ms),
        **{"step_ms": STEP_MS, **more},  # type: ignore[arg-type]
    )


def codes(timings: Timings, *, prefetched: bool | None = None) -> list[str]:
    found = check_phases(
        timings,
        np.ones(timings.num_steps, np.bool_),
        np.ones(timings.num_ranks, np.bool_),
        load_is_prefetched=prefetched,
    )
    return [remark.code for remark in found]


def test_phases_that_fit_pass_without_a_word() -> None:
    # Communication may run beside both: 12 + 312 + 400 are more than 422.
    assert codes(table(12, 312, 400)) == []
    assert codes(table(110, 312, 0)) == []
    assert codes(timings_of(np.full(SHAPE, 312.0))) == []
    assert codes(timings_of(np.full(SHAPE, 312.0), step_ms=STEP_MS)) == []


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        (
            (12, 430, 80),
            "in 400 of 400 cells compute is longer than the step, such as 430 ms of 42",
        ),
        (
            (3_000, 312, 80),
            "load is longer than the step, such as 3000 ms of 422 ms at step 0, rank 0",
        ),
        (
            (3_000, 312, 80),
            "not how long workers take to make it, or units or columns are mixed up",
        ),
        ((12, 312, 800), "communication is longer than the step, such as 800 ms of 422 ms"),
    ],
)
def test_a_phase_that_is_longer_than_its_step_is_refused(
    phases: tuple[float, float, float], said: str
) -> None:
    for prefetched in (None, True, False):
        with pytest.raises(TimingsRefusedError) as caught:
            codes(table(*phases), prefetched=prefetched)
        assert caught.value.faults[0].code == "inconsistent_times"
        assert said in caught.value.faults[0].detail


def test_in_few_cells_it_is_a_remark() -> None:
    step_ms = STEP_MS.copy()
    step_ms[7, 3] = 11.0
    assert codes(table(10, 312, 80, step_ms=step_ms)) == [
        "compute_over_step",
        "communication_over_step",
    ]
    step_ms[7:9] = np.nan
    assert codes(table(10, 312, 80, step_ms=step_ms)) == []


def test_kernels_may_run_on_beyond_the_window_of_their_step() -> None:
    step_ms = STEP_MS.copy()
    step_ms[:10] = 330
    trace = table(0, 312, 400, format="kineto", step_ms=step_ms)
    assert codes(trace) == ["communication_over_step"]
    with pytest.raises(TimingsRefusedError, match="communication is longer"):
        codes(table(0, 312, 800, format="kineto"))
    with pytest.raises(TimingsRefusedError, match="communication is longer"):
        codes(table(0, 312, 400, step_ms=step_ms))


def test_loading_and_compute_that_are_together_longer_run_beside_one_another() -> None:
    both = table(200, 312, 0)
    assert codes(both) == ["serial_over_step"]
    assert codes(both, prefetched=True) == []
    with pytest.raises(TimingsRefusedError, match=r"together are longer .* is not serial"):
        codes(both, prefetched=False)


def test_only_the_chosen_cells_count() -> None:
    timings = table(12, 312, 80, step_ms=np.where(np.arange(8) == 5, 100.0, STEP_MS))
    rows, ranks = np.arange(50) > 4, np.arange(8) != 5
    assert check_phases(timings, rows, ranks, load_is_prefetched=None) == []
    with pytest.raises(TimingsRefusedError, match=r"in 45 of 45 cells .* at step 5, rank 5"):
        check_phases(timings, rows, ~ranks, load_is_prefetched=None)
