import re
from collections.abc import Callable

import numpy as np
import pytest

from service.calibration.chosen_steps import with_steps
from service.calibration.fit import fit
from service.calibration.observed import observed_of
from service.calibration.options import CalibrationOptions
from service.calibration.steps_apart import left_out_of, steps_apart
from service.calibration.timings import FloatArray
from tests.calibration.compute_tables import (
    factors_of,
    observed_of_matrix,
    passes_of,
    timings_of,
    trace,
)
from tests.calibration.overlap_simulator import Job, simulate
from tests.calibration.overlap_simulator import timings_of as timings_of_run
from tests.calibration.synthetic_tables import Kind, table_of

DEFAULT = CalibrationOptions()


def compiled(cells: FloatArray) -> None:
    cells[0] = 8_000


def warmed_up(cells: FloatArray) -> None:
    cells[:10] *= 3


def decaying(cells: FloatArray) -> None:
    cells[:5] *= np.array([27, 9, 4, 2, 1.5])[:, np.newaxis]


def checkpoints(cells: FloatArray) -> None:
    cells[::10] *= 4


def rare_pauses(cells: FloatArray) -> None:
    cells[[13, 14, 51]] *= 3


def cut_short(cells: FloatArray) -> None:
    cells[-1] *= 0.4


@pytest.mark.parametrize(
    ("change", "count", "words"),
    [
        (compiled, 1, "step 0, the first of the run"),
        (warmed_up, 10, r"10 steps \(0, 1, 2, 3, 4, 5, 6, 7, 8, 9\), the first of the run"),
        (decaying, 5, "5 steps .* took 1.[45].* to 2[67].* times as long"),
        (checkpoints, 6, r"6 steps \(0, 10, 20, 30, 40, 50\), periodic: every 10 steps"),
        (rare_pauses, 3, r"3 steps \(13, 14, 51\) took"),
        (cut_short, 1, "step 59 took 0.[34]"),
    ],
)
def test_the_rest_is_fitted_as_if_they_were_not_there(
    change: Callable[[FloatArray], None], count: int, words: str
) -> None:
    kind = Kind(60, 16, persistent=0.03, common=0.01, transient=0.02)
    timings = table_of(kind, 4).timings
    alone = fit(timings, DEFAULT)
    change(timings.compute_ms)
    found = fit(timings, DEFAULT)
    (left_out,) = found.source.left_out
    assert left_out.count == count
    (remark,) = (remark for remark in found.warnings if remark.code == "steps_apart")
    assert re.search(words, remark.detail)
    assert found.source.num_steps == 60 - count
    assert found.compute_ms.value == pytest.approx(alone.compute_ms.value, rel=0.003)
    for part, truth in (("persistent", 0.03), ("common", 0.01), ("transient", 0.02)):
        estimate = getattr(found.healthy, f"{part}_cv")
        assert estimate.value == pytest.approx(getattr(alone.healthy, f"{part}_cv").value, rel=0.15)
        assert estimate.low * 0.9 < truth < estimate.high * 1.1


@pytest.mark.parametrize(
    "kind",
    [
        Kind(60, 16, common=0.2, law="lognormal"),
        Kind(20, 8, common=0.05),
        Kind(60, 16, common=0.3, law="gamma"),
    ],
)
def test_what_a_law_brings_stays(kind: Kind) -> None:
    for seed in range(40):
        assert not steps_apart(observed_of(table_of(kind, seed).timings)).rows.any()


def test_a_long_tail_of_steps_stays() -> None:
    rng = np.random.default_rng(6)
    named = 0
    for _ in range(100):
        steps = 0.9 + 0.1 * rng.exponential(1, (60, 1))
        cells = 100 * steps * (1 + 0.01 * rng.standard_normal((60, 8)))
        named += int(steps_apart(observed_of_matrix(cells)).rows.any())
    # by deviations alone it would be a third of them
    assert named <= 5


def test_one_rank_of_two_is_no_whole_step() -> None:
    cells = factors_of((40, 2), rank=0.02, step=0.01, rest=0.01)
    cells[7, 1] *= 5
    assert not steps_apart(observed_of_matrix(cells)).rows.any()
    cells[7, 0] *= 5
    assert steps_apart(observed_of_matrix(cells)).rows.nonzero()[0].tolist() == [7]


def test_nothing_is_left_out_of_the_public_traces() -> None:
    for name in ("st", "ar"):
        assert not steps_apart(observed_of(trace(name, with_stages=False))).rows.any()


def test_steps_are_told_though_ranks_are_missing() -> None:
    cells = factors_of((60, 16), rank=0.1, step=0.01, rest=0.01)
    cells[np.random.default_rng(2).random(cells.shape) < 0.3] = np.nan
    cells[[5, 40]] *= 2
    apart = steps_apart(observed_of_matrix(cells))
    assert apart.rows.nonzero()[0].tolist() == [5, 40]
    assert apart.ratios[5] == pytest.approx(2, rel=0.05)


def test_many_steps_are_named_in_part() -> None:
    cells = factors_of((300, 8), rank=0.02, step=0.01, rest=0.01)
    cells[3:300:15] *= 2
    apart = steps_apart(observed_of_matrix(cells))
    left_out, remark = left_out_of(np.arange(300), apart)
    assert left_out.count == 20
    assert (
        "20 steps (3, 18, 33, 48, 63, 78, 93, 108, 123, 138, 153, 168, …), periodic: every 15"
        in (remark.detail)
    )
    # 20 steps of 2 among 280 of 1
    assert "12.5% of the time" in remark.detail


@pytest.mark.parametrize(
    "rows",
    # whole optimizer steps of gradient accumulation, long batches, a last third that is throttled
    [slice(0, 120, 4), slice(1, 120, 5), slice(81, 120)],
)
def test_what_is_more_than_a_tenth_is_time_of_the_job(rows: slice) -> None:
    cells = 3 * factors_of((120, 16), rank=0.02, step=0.01, rest=0.02)
    cells[rows] *= 1.5
    found = fit(timings_of(cells), DEFAULT)
    assert found.source.left_out == []
    assert found.source.num_steps == 120
    assert found.compute_ms.value == pytest.approx(cells.mean(), rel=0.01)
    assert "kinds_of_steps" in {remark.code for remark in found.warnings}
    # The first step is still left out where it is another kind.
    cells[0] = 9_000
    (left_out,) = fit(timings_of(cells), DEFAULT).source.left_out
    assert left_out.count == 1


def test_half_of_the_steps_are_a_kind_of_their_own() -> None:
    cells = factors_of((60, 8), rank=0.03, step=0.01, rest=0.02)
    cells[::2] *= 3
    found = fit(timings_of(cells), DEFAULT)
    assert [remark.code for remark in found.warnings] == ["kinds_of_steps"]
    transient = found.healthy.transient_cv
    assert transient is not None
    assert transient.low is not None
    assert transient.high is not None
    assert transient.low < 0.02 < transient.high


def test_everything_that_has_steps_is_chosen_from() -> None:
    cells = factors_of((12, 4), rank=0.02, step=0.01, rest=0.01)
    timings = timings_of(cells, load_ms=cells / 10, step_ms=cells * 2, passes=passes_of(cells, 4))
    kept = np.arange(12) % 3 != 0
    found = with_steps(timings, kept)
    assert found.steps.tolist() == [1, 2, 4, 5, 7, 8, 10, 11]
    assert found.load_ms is not None
    assert found.passes is not None
    assert found.load_ms.tolist() == (cells[kept] / 10).tolist()
    assert found.passes.backward_ms.shape == (8, 4)
    assert found.communication_ms is None
    run = timings_of_run(simulate(Job(num_ranks=2, num_buckets=3), 12, 1), [0, 1])
    whole, part = run.collectives, with_steps(run, kept).collectives
    assert whole is not None
    assert part is not None
    assert set(part.step.tolist()) == set(run.steps[kept].tolist())
    assert len(part.name) == len(part.rank) == len(whole.rank) * 8 // 12
    assert len(part.first) == len(part.rank) + 1
    assert part.first[-1] == len(part.before_end_start_ms)
