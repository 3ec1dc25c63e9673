"""The audit from step arithmetic: truth inside the interval, and no more said than is known."""

from typing import Any

import numpy as np
import pytest

from service.calibration.findings import OverlapAudit
from service.calibration.overlap_arithmetic import audit_arithmetic
from service.calibration.overlap_bounds import LEAST_SHARE, MOST_CONTENTION, bounds_of, verdict_of
from service.calibration.refusals import TimingsRefusedError
from service.calibration.step_arithmetic import StepArithmetic

# The founding page's step, of the rank that comes last, loading in the step.
STEP: dict[str, Any] = {
    "load_ms": 30,
    "compute_ms": 300,
    "communication_ms": 80,
    "load_is_prefetched": False,
    "communication_includes_wait": False,
}
ROUND_OFF = 1e-9


def audit(**changed: Any) -> OverlapAudit:
    return audit_arithmetic(StepArithmetic(**{**STEP, **changed}))


def share(**changed: Any) -> tuple[float, float]:
    found = audit(**changed).hidden_share
    return found.low, found.high


def names(found: OverlapAudit) -> list[str]:
    return [experiment.name for experiment in found.experiments]


def system(rng: np.random.Generator) -> tuple[dict[str, Any], float]:
    """A step with everything that a real one may hold, as it is measured, and its hidden share."""
    load, compute = rng.uniform(0, 200), rng.uniform(20, 500)
    backward = rng.uniform(0.3, 0.9)
    transfer = rng.uniform(1, 300)
    contention = rng.uniform(0, MOST_CONTENTION) * rng.integers(2)
    is_in_compute = bool(rng.integers(2))
    # Beside the backward pass as timed: with the contention in it, or without.
    window = backward * compute
    hidden = rng.choice([0.0, rng.uniform(), 1.0]) * min(transfer, window)
    longer = contention * hidden
    # Timed with contention in it, compute alone is shorter by that.
    alone = compute - longer if is_in_compute else compute
    is_prefetched = bool(rng.integers(2))
    hidden_load = rng.uniform() * load if is_prefetched else 0.0
    wait, wait_inside = rng.choice([0.0, rng.exponential(30)]), rng.choice([0.0, 50.0])
    rest = rng.choice([0.0, rng.exponential(20)])
    step = load - hidden_load + alone + longer + transfer - hidden + wait + rest
    knows_load, knows_wait = rng.integers(2, size=2)
    includes_wait = wait > 0 or wait_inside > 0
    measured: dict[str, Any] = {
        "load_ms": load,
        "compute_ms": compute,
        "communication_ms": transfer + wait + wait_inside,
        "step_ms": step,
        "backward_fraction": backward,
        "load_is_prefetched": is_prefetched if knows_load else None,
        "communication_includes_wait": bool(includes_wait) if knows_wait else None,
    }
    # The runs are of the slowest rank, which waits for nobody.
    if wait == 0 and rng.integers(2):
        measured["no_communication_step_ms"] = step - transfer + hidden - longer
    if wait == 0 and rng.integers(2):
        measured["overlap_off_step_ms"] = step + hidden - longer
    if rng.integers(2):
        measured["isolated_communication_ms"] = transfer
    plain = {
        name: float(value) if isinstance(value, np.floating) else value
        for name, value in measured.items()
    }
    return plain, float(hidden / transfer)


def test_the_truth_is_inside_whatever_is_unknown() -> None:
    verdicts = []
    for seed in range(1500):
        measured, truth = system(np.random.default_rng(seed))
        bounds = bounds_of(StepArithmetic(**measured))
        assert bounds.agree, (seed, measured)
        assert bounds.share.low - ROUND_OFF <= truth <= bounds.share.high + ROUND_OFF, (
            seed,
            measured,
            bounds,
        )
        verdicts.append((verdict_of(*bounds.share), truth > LEAST_SHARE))
    # And something is said: of both kinds, and never the wrong one.
    assert verdicts.count(("overlaps", True)) > 100
    assert verdicts.count(("does_not_overlap", False)) > 50
    assert ("overlaps", False) not in verdicts
    assert ("does_not_overlap", True) not in verdicts


def test_noise_keeps_the_truth_inside_at_the_stated_rate() -> None:
    inside = 0
    for seed in range(600):
        rng = np.random.default_rng(10_000 + seed)
        measured, truth = system(rng)
        errors = dict(zip(("load", "compute", "communication", "step"), (1, 3, 2, 2), strict=True))
        for name, error in errors.items():
            moved = measured[f"{name}_ms"] + error * rng.normal()
            measured[f"{name}_ms"] = max(0.001, moved)
            measured[f"{name}_sd_ms"] = error
        for name in ("no_communication_step", "overlap_off_step", "isolated_communication"):
            if f"{name}_ms" in measured:
                measured[f"{name}_ms"] = max(0.001, measured[f"{name}_ms"] + 2 * rng.normal())
        measured["isolated_communication_sd_ms"] = 2.0
        bounds = bounds_of(StepArithmetic(**measured, confidence=0.8))
        inside += bounds.share.low <= truth <= bounds.share.high
    # 0.8 by itself would be 480 with a standard error of 9.8; bounds keep more.
    assert inside >= 480 - 2 * 9.8


@pytest.mark.parametrize(("communication", "points"), [(15, 28), (60, 7), (150, 3)])
def test_three_ms_of_noise_are_the_reference_tables_points(communication: int, points: int) -> None:
    # communication notes, section 5: sigma = sqrt(sigma_T^2 + sigma_C^2) / A; half is hidden.
    low, _ = share(
        communication_ms=communication,
        step_ms=330 + communication / 2,
        step_sd_ms=3,
        compute_sd_ms=3,
        confidence=0.682689492137086,
    )
    assert round(100 * (0.5 - low)) == points


def test_below_ten_standard_errors_nothing_is_said() -> None:
    # All of it hidden; the noise is 3 sqrt(2) = 4.24 ms.
    noisy = {"step_ms": 330, "step_sd_ms": 3, "compute_sd_ms": 3}
    drowned = audit(communication_ms=40, **noisy)
    assert drowned.verdict == "cannot_tell"
    assert "less than 10 standard errors of 4.24 ms" in drowned.reasons[1]
    assert "more_steps" in names(drowned)
    assert audit(communication_ms=45, **noisy).verdict == "overlaps"


def test_a_longer_step_than_the_parts_says_nothing() -> None:
    # 40 ms may be hidden and 40 ms may be waiting and optimizer.
    found = audit(step_ms=410)
    assert found.verdict == "cannot_tell"
    assert share(step_ms=410) == (0, 1)
    assert found.route == "arithmetic"
    assert found.exposed_ms is None
    assert found.wait_ms is None
    assert names(found) == ["no_sync_run", "profile_all_ranks", "throttled_bandwidth"]


def test_what_fits_into_no_step_must_be_hidden() -> None:
    assert share(step_ms=350) == pytest.approx((60 / 80, 1))
    assert audit(step_ms=350).verdict == "overlaps"


def test_loading_that_may_be_hidden_is_left_out() -> None:
    # C + A - T = 30 of 80: the other 30 ms may be hidden loading.
    for is_prefetched in (True, None):
        found = audit(step_ms=350, load_is_prefetched=is_prefetched)
        assert found.hidden_share.low == pytest.approx(30 / 80)
        assert any("left out of the sum" in reason for reason in found.reasons)
    unclear = {"load_is_prefetched": None, "communication_includes_wait": None}
    assert "synthetic_data" in names(audit(step_ms=350, **unclear))


def test_waiting_in_communication_leaves_the_transfer_open() -> None:
    # At most 20 ms are exposed; of a transfer of 20 ms that would be all.
    found = audit(step_ms=350, communication_includes_wait=None)
    assert (found.hidden_share.low, found.hidden_share.high) == (0, 1)
    assert found.communication_ms is not None
    assert (found.communication_ms.value, found.communication_ms.low) == (80, None)
    assert any("may hold waiting" in reason for reason in found.reasons)
    assert names(found)[:2] == ["overlap_off", "isolated_collective"]
    # Unless nothing is exposed, when all of whatever it is is hidden.
    assert share(step_ms=330, communication_includes_wait=None) == (1, 1)


def test_no_sync_and_the_isolated_collective_settle_it() -> None:
    alone = {"isolated_communication_ms": 80, "communication_includes_wait": None}
    none = audit(step_ms=410, no_communication_step_ms=330, **alone)
    assert (none.verdict, none.route) == ("does_not_overlap", "interventions")
    assert (none.hidden_share.low, none.hidden_share.high) == (0, 0)
    assert none.exposed_ms is not None
    assert none.exposed_ms.value == 80
    assert none.experiments == []
    # 40 of 80 without contention, 40 / 0.6 with the most of it.
    half = audit(step_ms=410, no_communication_step_ms=370, **alone)
    assert half.verdict == "overlaps"
    assert half.hidden_share.low == pytest.approx(1 / 2)
    assert half.hidden_share.high == pytest.approx(1 / 2 / 0.6)


def test_two_runs_tell_the_transfer_too() -> None:
    found = audit(
        step_ms=410,
        communication_ms=110,
        communication_includes_wait=True,
        no_communication_step_ms=400,
        overlap_off_step_ms=460,
    )
    assert found.communication_ms is not None
    assert found.communication_ms.value == 60
    assert found.hidden_share.low == pytest.approx(50 / 60)
    assert found.wait_ms is not None
    assert found.wait_ms.value == 50


def test_an_isolated_collective_shows_the_wait() -> None:
    found = audit(
        step_ms=350,
        isolated_communication_ms=50,
        isolated_communication_sd_ms=3,
        communication_sd_ms=4,
        communication_includes_wait=None,
        confidence=0.682689492137086,
    )
    assert found.wait_ms is not None
    assert [found.wait_ms.low, found.wait_ms.value, found.wait_ms.high] == pytest.approx(
        [25, 30, 35]
    )
    assert found.route == "arithmetic"


def test_no_overlap_is_known_where_there_is_nothing_to_hide_behind() -> None:
    # 20 ms of backward pass beside 1 000 ms of communication.
    found = audit(load_ms=0, compute_ms=30, communication_ms=1000, step_ms=1030)
    assert found.verdict == "does_not_overlap"
    assert found.hidden_share.high == pytest.approx(20 / 1000)


def test_overlap_off_bounds_what_is_hidden() -> None:
    # It saves 30 ms of 80: without contention 37.5 %, with the most of it 62.5 %.
    assert share(step_ms=410, overlap_off_step_ms=440) == pytest.approx((30 / 80, 50 / 80))
    assert audit(step_ms=410, overlap_off_step_ms=410).verdict == "does_not_overlap"


@pytest.mark.parametrize(
    "clash",
    [
        {"no_communication_step_ms": 300, "isolated_communication_ms": 60},
        {"overlap_off_step_ms": 510, "isolated_communication_ms": 60},
        {"isolated_communication_ms": 20},
        {"no_communication_step_ms": 400, "overlap_off_step_ms": 410.5},
    ],
)
def test_figures_that_clash_conclude_nothing(clash: dict[str, float]) -> None:
    found = audit(step_ms=410, **clash)
    assert found.verdict == "cannot_tell"
    assert (found.hidden_share.low, found.hidden_share.high) == (0, 1)
    assert found.reasons[0].startswith("the figures contradict one another")


@pytest.mark.parametrize("communication", [5e-324, 1e-300, 1e9])
@pytest.mark.parametrize("includes_wait", [None, False])
def test_any_size_that_is_taken_is_computed_with(
    communication: float, *, includes_wait: bool | None
) -> None:
    found = audit(
        communication_ms=communication, step_ms=1e9, communication_includes_wait=includes_wait
    )
    assert 0 <= found.hidden_share.low <= found.hidden_share.high <= 1


def test_figures_that_differ_by_round_off_are_equal() -> None:
    """Sums of the same numbers in another order: compute and step of hidden communication."""
    observed = StepArithmetic(
        load_ms=0,
        compute_ms=405.66111431340454,
        communication_ms=80,
        step_ms=405.6611143134045,
        load_is_prefetched=False,
    )
    assert audit_arithmetic(observed).verdict == "overlaps"


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"step_ms": 299}, ["compute_ms"]),
        ({"step_ms": 329}, ["load_is_prefetched"]),
        ({"step_ms": 400, "no_communication_step_ms": 421}, ["no_communication_step_ms"]),
        ({"step_ms": 400, "overlap_off_step_ms": 379}, ["overlap_off_step_ms"]),
        (
            {"step_ms": 200, "overlap_off_step_ms": 100, "no_communication_step_ms": 900},
            ["compute_ms", "no_communication_step_ms", "overlap_off_step_ms"],
        ),
    ],
)
def test_what_no_step_can_be_is_refused(changed: dict[str, float], fields: list[str]) -> None:
    with pytest.raises(TimingsRefusedError) as caught:
        audit(**changed)
    assert [fault.field for fault in caught.value.faults] == fields
    assert {fault.code for fault in caught.value.faults} == {"inconsistent_times"}
    # Within the noise it is not.
    audit(**{**changed, "step_sd_ms": 200})


def test_the_order_of_experiments_is_that_of_what_they_settle() -> None:
    found = audit(step_ms=410, load_is_prefetched=None, communication_includes_wait=None)
    # Alone the isolated collective would tell nothing, but with it the other two runs are one.
    assert names(found)[0] in {"no_sync_run", "overlap_off"}
    assert names(found)[-2:] == ["profile_all_ranks", "throttled_bandwidth"]
    for experiment in found.experiments:
        assert experiment.what_to_do.endswith(".")
        assert experiment.what_it_tells.endswith(".")
