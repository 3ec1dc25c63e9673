"""The proposed scenario, evaluated by the model, has the step of the timings it was made of."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from service.calibration.findings import Findings
from service.calibration.fit import fit
from service.calibration.options import CalibrationOptions
from service.calibration.timings import Timings
from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import apply_overrides, decode_scenario
from tests.calibration.compute_tables import factors_of
from tests.calibration.compute_tables import timings_of as table_of
from tests.calibration.overlap_simulator import Job, simulate, timings_of

ALL = list(range(8))


def job(ranks: list[int] = ALL, *, is_table: bool = True, **changed: Any) -> Timings:
    """40 steps with 100 ms of transfer, a tenth of it exposed unless it is one bucket."""
    timings = timings_of(simulate(Job(compute_cv=0.01, **changed), 40, 3), ranks, 8)
    return replace(timings, format="table", collectives=None) if is_table else timings


def loaded(timings: Timings, load_ms: float, *, is_beside: bool) -> Timings:
    drawn = load_ms + np.random.default_rng(0).normal(0, 0.2, timings.compute_ms.shape)
    assert timings.step_ms is not None
    longer = 0 if is_beside else drawn.max(axis=1, keepdims=True)
    return replace(timings, load_ms=drawn, step_ms=timings.step_ms + longer)


def step_of(found: Findings) -> float:
    scenario = apply_overrides({"num_gpus": 1, "compute_ms": 1.0}, found.proposal.overrides)
    told = evaluate(
        columns_of(decode_scenario(scenario)),
        with_spread=False,
        with_causes=False,
        with_quantiles=False,
    )
    return float(told.columns["step_mean_ms"][0])


def longer_by(timings: Timings, more_ms: float) -> Timings:
    assert timings.step_ms is not None
    return replace(timings, step_ms=timings.step_ms + more_ms)


@pytest.mark.parametrize(
    ("timings", "options"),
    [
        (job(), {}),
        (job(slow=1.3), {}),
        (job(slow=1.3), {"isolated_communication_ms": 100, "no_communication_step_ms": 392}),
        (job(num_buckets=1), {}),
        (loaded(job(), 20, is_beside=False), {}),
        (loaded(job(), 100, is_beside=True), {}),
        (loaded(job(num_buckets=1), 100, is_beside=True), {}),
        (loaded(job(num_buckets=1), 250, is_beside=True), {}),
        (loaded(job(num_buckets=1), 100, is_beside=True), {"load_is_prefetched": True}),
        (replace(loaded(job(), 20, is_beside=False), communication_ms=None), {}),
        (job(is_table=False, slow=1.3), {}),
        (job([0, 1, 2, 3], is_table=False, slow=1.3), {}),
        (job([4, 5, 6, 7], is_table=False, slow=1.3), {}),
        # Whatever the step holds besides, such as the all-gathers of a sharded job.
        (longer_by(job(is_table=False), 60), {}),
    ],
)
def test_the_step_of_the_scenario_is_the_files(timings: Timings, options: dict[str, Any]) -> None:
    found = fit(timings, CalibrationOptions(**options))
    assert timings.step_ms is not None
    assert step_of(found) == pytest.approx(float(timings.step_ms[:, 0].mean()), rel=0.01)
    assert "step_not_explained" not in [remark.code for remark in found.warnings]


def test_of_what_is_partly_hidden_the_exposed_part_is_proposed() -> None:
    found = fit(job(), CalibrationOptions()).proposal
    assert found.overrides["communication"]["allreduce_ms"] == pytest.approx(10)
    assert "overlap" not in found.overrides
    (unknown,) = [unknown for unknown in found.unknown if unknown.path == "overlap"]
    assert "communication is the part that is not hidden" in unknown.reason
    # Known buckets make the step that was timed: they stay, with all of the transfer.
    found = fit(job(is_table=False), CalibrationOptions()).proposal
    assert found.overrides["communication"]["allreduce_ms"] == pytest.approx(100)
    assert found.overrides["overlap"] == {"kind": "buckets", "num_buckets": 10}
    found = fit(longer_by(job(is_table=False), 60), CalibrationOptions()).proposal
    assert found.overrides["communication"]["allreduce_ms"] == pytest.approx(70, abs=0.5)
    assert "overlap" not in found.overrides


@pytest.mark.parametrize(
    ("ranks", "ends"), [(ALL, "no phase holds"), ([4, 5, 6, 7], "slower ranks that were not timed")]
)
def test_what_else_may_be_in_it_is_said(ranks: list[int], ends: str) -> None:
    timings = longer_by(job(ranks, is_table=False, slow=1.3), 60)
    (value,) = [
        value
        for value in fit(timings, CalibrationOptions()).proposal.values
        if value.path == "communication"
    ]
    assert value.reason.endswith(ends)


def test_loading_that_does_not_fit_into_the_step_runs_beside_the_one_before() -> None:
    found = fit(loaded(job(num_buckets=1), 250, is_beside=True), CalibrationOptions()).proposal
    assert found.overrides["overlap"] == {"kind": "none", "load_prefetch": True}
    assert found.overrides["communication"]["allreduce_ms"] == pytest.approx(100)
    assert found.overrides["load_ms"] == pytest.approx(250, abs=0.5)
    assert "overlap.load_prefetch" not in [unknown.path for unknown in found.unknown]
    # As far as load and compute fit, it may stand in the step.
    found = fit(loaded(job(), 20, is_beside=False), CalibrationOptions()).proposal
    assert "overlap.load_prefetch" in [unknown.path for unknown in found.unknown]


@pytest.mark.parametrize(
    ("step_to_compute", "communication_ms", "said"),
    [(1.3, None, "what no phase holds is missing"), (1.1, 40.0, "count one after the other")],
)
def test_a_pipeline_that_makes_another_step_is_said(
    step_to_compute: float, communication_ms: float | None, said: str
) -> None:
    """Of which the rest is no communication: bubbles are in it."""
    cells = factors_of((40, 8), rank=0.02, step=0.02, rest=0.01)
    slowest = np.repeat(cells.max(axis=1, keepdims=True), 8, axis=1)
    timings = table_of(
        cells,
        step_ms=step_to_compute * slowest,
        communication_ms=None if communication_ms is None else np.full((40, 8), communication_ms),
        stages=np.repeat([0, 1], 4),
    )
    found = fit(timings, CalibrationOptions())
    (remark,) = [remark for remark in found.warnings if remark.code == "step_not_explained"]
    assert said in remark.detail
    assert found.step_mean_ms is not None
    off = step_of(found) / found.step_mean_ms.value - 1
    assert f"({off:+.1%} off)" in remark.detail
