import numpy as np
import pytest

from service.calibration.waiting_included import waiting_of
from tests.calibration.compute_tables import factors_of, trace


def test_four_ranks_behind_a_barrier() -> None:
    # traceml, issue 252: one of four ranks 200 ms late, timed behind the barrier
    step = np.array([293.0, 292.2, 293.0, 293.1])
    cells = step * (1 + 0.05 * np.random.default_rng(0).standard_normal((30, 1)))
    waiting = waiting_of(cells, None)
    assert waiting.is_included
    assert waiting.within_step == pytest.approx(np.sqrt(np.mean((step / 293 - 1) ** 2)), rel=1e-9)


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
