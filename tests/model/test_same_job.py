"""The same job in another pipeline: its work is counted here operation by operation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from service.model.fields import Scenario
from service.model.same_job import PipelineSizes, resampled, same_job, sizes_of
from tests.model.piped_scenarios import STEP, piped, put

UNEQUAL = [3.0, 1.0, 2.0, 4.0, 1.0, 1.0, 2.0, 2.0]


def whole_work(scenario: Scenario) -> float:
    """GPU-milliseconds of all operations of a step at nominal speed."""
    now = scenario.pipeline
    assert now is not None
    replicas = scenario.num_gpus // now.stages
    total = 0.0
    for name in ("forward_ms", "backward_ms"):
        value = getattr(now, name)
        each = value if isinstance(value, Sequence) else [value] * now.stages
        total += replicas * now.microbatches * sum(each)
    return total


@pytest.mark.parametrize("sizes", [(8, 32, 1), (4, 8, 1), (16, 32, 2), (2, 16, 1), (32, 4, 1)])
@pytest.mark.parametrize("forward", [2.0, UNEQUAL])
def test_all_work_is_kept(sizes: tuple[int, int, int], forward: Any) -> None:
    base = piped({"forward_ms": forward, "backward_ms": 4.0}, compute_ms=None)
    wanted = PipelineSizes("gpipe" if sizes[2] == 1 else "looped_bfs", *sizes)
    there = put(base, same_job(base, wanted))
    assert there.pipeline is not None
    assert sizes_of(there.pipeline) == wanted
    assert whole_work(there) == pytest.approx(whole_work(base), rel=1e-12)


def test_smaller_micro_batches_take_less() -> None:
    base = piped({"forward_ms": UNEQUAL, "backward_ms": 4.0}, compute_ms=None)
    found = same_job(base, PipelineSizes("1f1b", 8, 64, 1))
    assert found == {
        "pipeline.microbatches": 64,
        "pipeline.forward_ms": [part / 4 for part in UNEQUAL],
        "pipeline.backward_ms": 1.0,
    }


def test_half_the_stages_have_twice_the_layers_and_micro_batches_keep_their_size() -> None:
    base = piped({"forward_ms": UNEQUAL, "backward_ms": 4.0}, compute_ms=None)
    found = same_job(base, PipelineSizes("1f1b", 4, 8, 1))
    assert found["pipeline.forward_ms"] == pytest.approx([4.0, 6.0, 2.0, 4.0], rel=1e-12)
    assert found["pipeline.backward_ms"] == pytest.approx(8.0)


def test_weights_go_with_the_layers_and_compute_stays() -> None:
    base = piped({"stage_weights": UNEQUAL})
    found = same_job(base, PipelineSizes("1f1b", 4, 16, 1))
    weights = np.array(found["pipeline.stage_weights"])
    assert weights / weights.sum() == pytest.approx(np.array([4, 6, 2, 4]) / 16)
    assert "compute_ms" not in found
    assert same_job(base, PipelineSizes("1f1b", 8, 32, 1)) == {"pipeline.microbatches": 32}


def test_nothing_changes_where_nothing_is_asked() -> None:
    base = piped({"forward_ms": UNEQUAL, "backward_ms": 4.0}, compute_ms=None)
    assert base.pipeline is not None
    assert same_job(base, sizes_of(base.pipeline)) == {}


@pytest.mark.parametrize("stages", [2, 4, 8, 16])
def test_slow_gpus_go_with_the_layers_of_their_stage(stages: int) -> None:
    groups = [
        {"count": 2, "speed_fraction": 0.7, "placement": 5},
        {"count": 1, "speed_fraction": 0.8},
    ]
    base = piped(slow_groups=groups)
    found = same_job(base, PipelineSizes("1f1b", stages, 2 * stages, 1))
    placed = {2: {1: 2}, 4: {2: 2}, 16: {10: 1, 11: 1}}
    if stages == 8:
        assert found == {}
        return
    assert found["slow_groups"] == [
        *(
            {"count": count, "speed_fraction": 0.7, "placement": stage}
            for stage, count in placed[stages].items()
        ),
        {"count": 1, "speed_fraction": 0.8, "placement": "random"},
    ]
    assert "slow_groups" not in same_job(piped(), PipelineSizes("1f1b", stages, 2, 1))


@pytest.mark.parametrize("stages", [1, 2, 3, 5, 7, 12])
def test_a_new_stage_has_the_integral_over_its_share(stages: int) -> None:
    work = [3.0, 1.0, 2.0, 4.0, 2.5]
    # A fine comb over the model stands in for the integral.
    comb = np.repeat(np.array(work) / 84_000, 84_000).reshape(stages, -1).sum(axis=1)
    assert resampled(work, stages) == pytest.approx(comb.tolist(), rel=1e-9)


def test_without_a_pipeline_there_are_no_sizes() -> None:
    alone = piped()
    document = {**STEP, "pipeline": None}
    assert alone.pipeline is not None
    with pytest.raises(ValueError, match="without a pipeline"):
        same_job(put(alone, document), sizes_of(alone.pipeline))
