import numpy as np
import pytest
from msgspec.structs import replace

from service.calibration.options import CalibrationOptions
from service.calibration.overlap import arithmetic_of, audit_alone, audit_of
from service.calibration.refusals import TimingsRefusedError
from service.calibration.timings import Timings
from service.calibration.trace_overlap_interval import (
    mean_estimate,
    share_reach,
    standard_error,
)
from tests.calibration.overlap_simulator import Job, Run, simulate, timings_of

OPTIONS = CalibrationOptions()


def table_of(run: Run, **changed: object) -> Timings:
    """The same run as a plain table would have it: sums a step, waiting among them."""
    timings = timings_of(run, list(range(run.compute_end.shape[1])))
    return replace(timings, format="table", collectives=None, **changed)


def test_figures_are_of_the_rank_that_has_most_to_do() -> None:
    run = simulate(Job(slow=1.3, compute_cv=0.01, transfer_cv=0.1), 60, 2)
    observed = arithmetic_of(table_of(run), OPTIONS)
    assert observed is not None
    assert observed.compute_ms == pytest.approx(run.compute_end[:, 0].mean())
    assert observed.communication_ms == pytest.approx(run.cost.sum(axis=1).mean())
    assert observed.step_ms == pytest.approx(run.stop[:, 0, -1].mean())
    assert observed.load_ms == 0
    # One rank is always the last, and no more ranks are known of: it waits for nobody
    assert observed.communication_includes_wait is False
    found = audit_of(table_of(run), OPTIONS)
    assert found is not None
    assert found.route == "arithmetic"
    assert found.hidden_share.low <= run.hidden_share <= found.hidden_share.high
    assert found.hidden_share.low == pytest.approx(run.hidden_share, abs=0.05)
    assert found.verdict == "overlaps"


def test_a_skipped_rank_or_a_changing_last_one_may_hold_waiting() -> None:
    run = simulate(Job(slow=1.3, compute_cv=0.01), 20, 2)
    for num_gpus in (64, 9):
        observed = arithmetic_of(table_of(run), CalibrationOptions(num_gpus=num_gpus))
        assert observed is not None
        assert observed.communication_includes_wait is None
    for timings in (
        table_of(run, world_size=16),
        table_of(simulate(Job(compute_cv=0.05), 20, 2)),
        timings_of(simulate(Job(num_ranks=2, slow=1.3), 20, 2), [0]),
    ):
        observed = arithmetic_of(replace(timings, collectives=None), OPTIONS)
        assert observed is not None
        assert observed.communication_includes_wait is None
    observed = arithmetic_of(
        table_of(run, num_gpus_per_rank=8, world_size=8), CalibrationOptions(num_gpus=64)
    )
    assert observed is not None
    assert observed.communication_includes_wait is False


def test_runs_in_which_something_was_switched_off_are_handed_on() -> None:
    run = simulate(Job(compute_cv=0.03), 40, 4)
    no_communication = float(run.compute_end.max(axis=1).mean())
    options = CalibrationOptions(
        no_communication_step_ms=no_communication,
        isolated_communication_ms=100,
        overlap_off_step_ms=no_communication + 100,
        load_is_prefetched=True,
        confidence=0.8,
    )
    observed = arithmetic_of(table_of(run), options)
    assert observed is not None
    assert observed.no_communication_step_ms == no_communication
    assert observed.isolated_communication_ms == 100
    assert observed.overlap_off_step_ms == no_communication + 100
    assert (observed.load_is_prefetched, observed.confidence) == (True, 0.8)
    found = audit_of(table_of(run), options)
    assert found is not None
    assert found.route == "interventions"
    assert found.hidden_share.low <= run.hidden_share <= found.hidden_share.high


def test_loading_counts_to_what_a_rank_has_to_do() -> None:
    run = simulate(Job(num_ranks=2), 5, 0)
    load = np.zeros((5, 2))
    load[:, 1] = 30
    step = np.full((5, 2), 400.0)
    step[:, 1] = 401
    observed = arithmetic_of(table_of(run, load_ms=load, step_ms=step), OPTIONS)
    assert observed is not None
    assert (observed.load_ms, observed.step_ms) == (30, 401)


def test_nothing_is_said_without_communication_or_steps() -> None:
    run = simulate(Job(num_ranks=2), 5, 0)
    missing = np.full((5, 2), np.nan)
    for changed in (
        {"communication_ms": None},
        {"step_ms": None},
        {"communication_ms": np.zeros((5, 2))},
        {"step_ms": missing},
    ):
        assert audit_of(table_of(run, **changed), OPTIONS) is None
    assert audit_of(table_of(simulate(Job(num_ranks=2), 2, 0)), OPTIONS) is None


def test_asked_for_alone_it_is_given_or_refused() -> None:
    run = simulate(Job(), 3, 0)
    assert audit_alone(timings_of(run, list(range(8))), OPTIONS).verdict == "overlaps"
    with pytest.raises(TimingsRefusedError, match="at least 3 whole steps"):
        audit_alone(table_of(run, communication_ms=None), OPTIONS)


def test_collectives_that_were_all_skipped_leave_the_arithmetic() -> None:
    timings = timings_of(simulate(Job(num_ranks=2), 5, 0), [0, 1])
    assert timings.collectives is not None
    none = np.zeros(0, np.int64)
    empty = replace(timings.collectives, rank=none, step=none, name=())
    found = audit_of(replace(timings, collectives=empty), OPTIONS)
    assert found is not None
    assert found.route == "arithmetic"


def test_times_that_no_step_has_are_refused() -> None:
    run = simulate(Job(num_ranks=2), 5, 0)
    with pytest.raises(TimingsRefusedError, match="the whole step takes"):
        audit_of(table_of(run, step_ms=np.full((5, 2), 200.0)), OPTIONS)


def test_random_tables_have_the_truth_inside() -> None:
    inside = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        job = Job(
            num_ranks=int(random.integers(2, 9)),
            num_buckets=int(random.integers(1, 9)),
            transfer_ms=float(random.uniform(20, 300)),
            slow=float(random.choice([1.0, 1.3])),
            compute_cv=float(random.uniform(0, 0.05)),
        )
        found = audit_of(table_of(simulate(job, 20, seed)), OPTIONS)
        assert found is not None
        truth = simulate(job, 1_000, seed + 1_000).hidden_share
        inside.append(found.hidden_share.low - 1e-9 <= truth <= found.hidden_share.high + 1e-9)
    assert np.mean(inside) >= 0.9


def test_standard_error_of_independent_steps_is_the_textbooks() -> None:
    values = np.random.default_rng(4).normal(10, 2, 6)
    textbook = values.std(ddof=1) / np.sqrt(6)
    assert standard_error(values) == pytest.approx(textbook, rel=0.08)
    assert standard_error(values[:2]) == np.inf
    assert standard_error(np.full(9, 3.0)) == 0


def test_standard_error_of_dependent_steps_grows() -> None:
    random = np.random.default_rng(7)
    noise = random.normal(size=2_000)
    for step in range(1, len(noise)):
        noise[step] += 0.5 * noise[step - 1]
    # AR(1): the variance of a mean is (1 + phi) / (1 - phi) times that of independent steps
    expected = noise.std() / np.sqrt(len(noise)) * np.sqrt(1.5 / 0.5)
    assert standard_error(noise) == pytest.approx(expected, rel=0.2)


def test_interval_of_a_share_that_never_changes_is_a_point() -> None:
    whole = np.array([1.0, 2.0, 5.0, 9.0])
    share, reach = share_reach(whole / 4, whole, 0.9)
    assert share == pytest.approx(0.25)
    assert reach == pytest.approx(0)
    found = mean_estimate(np.array([0.0, 0.0, 0.0, 1.0]), 0.9)
    assert found.low == 0
    assert found.value == 0.25
    few = mean_estimate(np.array([1.0, 2.0]), 0.9)
    assert (few.value, few.low, few.high) == (1.5, None, None)
