import tracemalloc

import pytest

from service.model.pipeline import plans
from service.model.pipeline.plans import MAX_CHUNK_MICROBATCHES, peak_of, plan_of


def test_a_plan_is_compiled_once() -> None:
    first = plan_of("gpipe", 3, 5, 1)
    assert plan_of("gpipe", 3, 5, 1) is first
    assert (first.schedule, first.stages, first.microbatches, first.chunks) == ("gpipe", 3, 5, 1)
    assert plan_of("1f1b", 3, 5, 1) is not first


def test_plans_used_longest_ago_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_HELD", {})
    monkeypatch.setattr(plans, "MAX_HELD_OPERATIONS", 50)
    first, second = plan_of("gpipe", 2, 5, 1), plan_of("gpipe", 2, 6, 1)
    assert plan_of("gpipe", 2, 5, 1) is first
    plan_of("gpipe", 2, 4, 1)
    assert plan_of("gpipe", 2, 5, 1) is first
    assert plan_of("gpipe", 2, 6, 1) is not second
    large = plan_of("gpipe", 2, 40, 1)
    assert plan_of("gpipe", 2, 40, 1) is large
    assert plan_of("gpipe", 2, 5, 1) is not first


def test_invalid_sizes_are_answered_with_the_rule_and_the_nearest() -> None:
    with pytest.raises(ValueError, match="9 micro-batches") as error:
        plan_of("interleaved_1f1b", 4, 9, 1)
    assert str(error.value) == (
        "4 stages, 9 micro-batches, 1 chunk: interleaved_1f1b needs at least two chunks per stage "
        "and a number of micro-batches that max(1, microbatches // stages) divides; nearest: "
        "4 stages, 8 micro-batches, 2 chunks or 4 stages, 10 micro-batches, 2 chunks"
    )


def test_too_large_sizes_are_refused_before_memory_is_taken() -> None:
    tracemalloc.start()
    with pytest.raises(ValueError, match="64 stages x 4097 micro-batches x 1 chunk are 262208"):
        plan_of("gpipe", 64, 4097, 1)
    with pytest.raises(ValueError, match=f"more than {MAX_CHUNK_MICROBATCHES}"):
        plan_of("interleaved_zb1p", 10**6, 10**9, 4)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


def test_peak_of_the_stage_with_most() -> None:
    assert peak_of("1f1b", 4, 16, 1) == 4
    assert peak_of("interleaved_1f1b", 4, 16, 2) == 5.5
    with pytest.raises(ValueError, match="nearest: 4 stages, 16 micro-batches, 1 chunk"):
        peak_of("1f1b", 4, 16, 2)
