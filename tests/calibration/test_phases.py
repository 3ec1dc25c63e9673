import numpy as np
import pytest

from service.calibration.phases import phases_of
from service.calibration.timings import Timings
from tests.calibration.compute_tables import timings_of

COMPUTE = np.array([[10.0, 20], [12, 18], [11, 21]])
WAIT = np.array([[15.0, 5], [11, 6], [14, 4]])
ALL = (np.ones(3, dtype=np.bool_), np.ones(2, dtype=np.bool_))


def means(timings: Timings) -> list[float | None]:
    found = phases_of(timings, *ALL, 0.9)
    return [
        None if one is None else one.value
        for one in (found.load_ms, found.communication_ms, found.step_mean_ms)
    ]


def test_communication_is_that_of_the_last_to_arrive() -> None:
    assert means(timings_of(COMPUTE)) == [None, None, None]
    slowest = (20 + 5 + 18 + 6 + 21 + 4) / 3
    assert means(timings_of(COMPUTE, communication_ms=WAIT)) == [None, 5, pytest.approx(slowest)]
    with_load = timings_of(COMPUTE, communication_ms=WAIT, load_ms=np.full((3, 2), 2.0))
    assert means(with_load) == [2, 5, pytest.approx(slowest + 2)]


def test_a_step_that_was_timed_is_taken() -> None:
    step = np.array([[26.0, 26], [25, 25], [27, np.nan]])
    assert means(timings_of(COMPUTE, step_ms=step)) == [None, None, 26]


def test_the_rest_is_what_the_slowest_rank_leaves_of_a_step() -> None:
    step = np.array([[26.0, 26], [25, 25], [27, 27]])
    assert phases_of(timings_of(COMPUTE), *ALL, 0.9).rest_ms is None
    whole = phases_of(timings_of(COMPUTE, step_ms=step), *ALL, 0.9).rest_ms
    assert whole is not None
    assert whole.value == pytest.approx(((26 - 20) + (25 - 18) + (27 - 21)) / 3)
    load = np.array([[3.0, 1], [3, 1], [3, 1]])
    missing = COMPUTE.copy()
    # The slowest may be the one that is missing.
    missing[2, 0] = np.nan
    part = phases_of(timings_of(missing, step_ms=step, load_ms=load), *ALL, 0.9).rest_ms
    assert part is not None
    assert part.value == pytest.approx(((26 - 21) + (25 - 19)) / 2)


def test_one_step_alone_has_no_mean() -> None:
    load = np.full((3, 2), np.nan)
    load[0] = 3.0
    wait = np.full((3, 2), np.nan)
    assert means(timings_of(COMPUTE, load_ms=load, communication_ms=wait)) == [None, None, None]
