"""Peaks by formula, against counts in the orders and against compiled plans."""

import numpy as np
import pytest

from service.model.pipeline import SCHEDULES
from service.model.pipeline.closed_peaks import closed_peak
from service.model.pipeline.peaks import peak_microbatches_in_flight
from service.model.pipeline.plans import plan_of
from tests.model.pipeline.pipeline_sizes import NAMES, valid_sizes

LARGE = (
    (32, 64, 1),
    (32, 64, 2),
    (24, 300, 1),
    (24, 300, 2),
    (7, 65, 3),
    (17, 200, 5),
    (64, 96, 6),
    (48, 5, 3),
)


def _counted(name: str, stages: int, microbatches: int, chunks: int) -> float:
    """Held at once on the rank with most, from the order of each rank alone."""
    most = 0
    for order in SCHEDULES[name].order(stages, microbatches, chunks):
        kind = order[:, 0]
        comes_back = np.isin(kind, (1, 2, 4))
        held = np.cumsum(np.isin(kind, (0, 4)).astype(int) - comes_back) + comes_back
        most = max(most, int(held.max()))
    return most / chunks


@pytest.mark.parametrize("name", NAMES)
def test_every_size(name: str) -> None:
    small = set(valid_sizes(name, 6, 16, 4))
    # All small ones, and of the larger ones every fifth (no divisor of what they count in).
    larger = [size for size in valid_sizes(name, 12, 40, 4) if size not in small]
    for size in [*small, *larger[::5]]:
        assert closed_peak(name, *size) == _counted(name, *size), size


@pytest.mark.parametrize("name", NAMES)
def test_large_sizes(name: str) -> None:
    for size in LARGE:
        near = SCHEDULES[name].nearest(*size)[-1]
        assert closed_peak(name, *near) == _counted(name, *near), near


@pytest.mark.parametrize("name", NAMES)
def test_compiled_plans(name: str) -> None:
    for size in list(valid_sizes(name, 12, 40, 4))[::37]:
        peaks = peak_microbatches_in_flight(plan_of(name, *size))
        assert closed_peak(name, *size) == peaks.max(), size
