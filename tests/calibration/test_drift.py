"""The drift rule by hand."""

import pytest

from service.calibration.drift import DriftPoint, drift_of


def sums(*departures: float | None) -> list[tuple[float, float]]:
    return [(point.slower, point.faster) for point in drift_of(departures).points]


def test_no_runs_do_not_drift() -> None:
    found = drift_of([])
    assert (found.points, found.direction, found.since) == ([], None, None)


def test_what_is_beyond_is_added_and_what_is_within_taken_away() -> None:
    found = [slower for slower, _ in sums(1.2, 1.3, 0.9, 1.1, -5, 1.2)]
    assert found == pytest.approx([0.2, 0.5, 0.4, 0.5, 0, 0.2])


def test_one_run_however_far_off_is_no_drift_and_two_are() -> None:
    assert drift_of([0, 50]).direction is None
    found = drift_of([0, 50, 1.5])
    assert (found.direction, found.since) == ("slower", 1)
    assert drift_of([0, -50, -1.5]).direction == "faster"


def test_five_runs_a_fifth_beyond_are_a_drift() -> None:
    assert drift_of([1.2] * 4).direction is None
    found = drift_of([-0.3, *[1.2] * 5])
    assert (found.direction, found.since) == ("slower", 1)


def test_runs_within_are_none_for_ever() -> None:
    assert drift_of([1.0, 0.99] * 500).direction is None


def test_both_directions_in_turn_are_no_drift() -> None:
    assert drift_of([1.4, -1.4] * 50).direction is None


def test_a_run_that_nobody_can_judge_changes_nothing() -> None:
    found = drift_of([1.5, None, 1.5])
    assert found.points[1] == DriftPoint(slower=0.5, faster=0)
    assert (found.direction, found.since) == ("slower", 0)


def test_two_runs_on_the_mark_end_a_long_drift() -> None:
    long = [2.0] * 30
    assert drift_of(long).points[-1].slower == 2
    assert drift_of([*long, 0]).direction == "slower"
    found = drift_of([*long, 0, 0])
    assert (found.direction, found.since) == (None, None)
    # What begins anew is dated anew
    assert drift_of([*long, 0, 0, 1.5, 1.5]).since == 32
