"""What a GPU holds, by hand: activations are micro-batches x layers x samples."""

import numpy as np
import pytest

from service.model.columns import columns_of, joined
from service.model.stage_memory import copies_of, memory_of
from service.model.stage_sizes import SCHEDULE_NAMES
from tests.model.piped_scenarios import STEP, piped, put


def test_ratios_are_those_of_one_job_at_other_sizes() -> None:
    # 64 GPUs, 1 024 samples and 64 layers in all; (stages, micro-batches, peak).
    sizes = [(8, 16, 8.0), (4, 8, 4.0), (8, 64, 8.0), (2, 32, 2.0)]
    columns = joined(
        [
            columns_of(piped({"stages": stages, "microbatches": number}))
            for stages, number, _ in sizes
        ]
    )
    found = memory_of(columns, np.array([peak for *_, peak in sizes]))

    def held(stages: int, number: int, peak: float) -> float:
        samples = 1024 / (64 / stages) / number
        return peak * samples * 64 / stages

    expected = [held(*size) / held(*sizes[0]) for size in sizes]
    assert found.activations_ratio == pytest.approx(expected, rel=1e-12)
    assert found.parameters_ratio == pytest.approx([1, 2, 1, 4], rel=1e-12)


def test_both_directions_hold_parameters_twice() -> None:
    columns = joined([columns_of(piped()), columns_of(piped({"schedule": "dualpipe"}))])
    assert memory_of(columns, np.array([8.0, 9.0])).parameters_ratio.tolist() == [1, 2]
    twice = [name for code, name in enumerate(SCHEDULE_NAMES, start=1) if copies_of(code) == 2]
    assert twice == ["dualpipe"]


def test_nothing_is_known_without_a_pipeline() -> None:
    alone = put(piped(), {**STEP, "pipeline": None})
    columns = joined([columns_of(piped()), columns_of(alone)])
    found = memory_of(columns, np.array([8.0, np.nan]))
    assert np.isnan(found.activations_ratio).tolist() == [False, True]
    assert np.isnan(found.parameters_ratio).tolist() == [False, True]
