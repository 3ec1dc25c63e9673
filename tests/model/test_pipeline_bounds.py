"""Times at the bounds of their fields: what is below is refused, what is within stays a number."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of, joined
from service.model.kernel import Results, evaluate
from service.model.parts.bounds import MAX_TIME_MS, MIN_COMPUTE_MS
from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario

LEAST, MOST = MIN_COMPUTE_MS, MAX_TIME_MS
TIMES = [
    (LEAST, LEAST),
    (MOST, MOST),
    (LEAST, MOST),
    ([LEAST, MOST], [MOST, LEAST]),
    ([LEAST, LEAST], [LEAST, MOST]),
]
SOURCES: list[dict[str, Any]] = [
    {},
    {"variability": {"common": {"kind": "gamma", "cv": 0.1}}},
    {"slow_groups": [{"count": 1, "speed_fraction": 1e-6, "placement": 0}]},
    {"variability": {"persistent": {"kind": "lognormal", "cv": 0.1}}},
]
PLANS = [("1f1b", 4, 1), ("zb1p", 4, 1), ("looped_bfs", 2, 2)]


def scenario(pipeline: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"num_gpus": 4, "draws": 16, "pipeline": {"stages": 2, **pipeline}, **changes}


def evaluated(*documents: dict[str, Any]) -> Results:
    """Each is a scenario; none may break a rule."""
    columns = joined([columns_of(decode_scenario(document)) for document in documents])
    return evaluate(columns)


def unknown(results: Results) -> set[str]:
    """Columns that are no numbers, or are infinite."""
    return {
        name
        for name, values in results.columns.items()
        if values.dtype.kind == "f" and not np.isfinite(values).all()
    }


@pytest.mark.parametrize("field", ["forward_ms", "backward_ms", "stage_weights"])
@pytest.mark.parametrize("below", [0, 5e-324, float(np.nextafter(1e-9, 0))])
def test_next_to_nothing_is_refused(field: str, below: float) -> None:
    sizes = {"schedule": "1f1b", "microbatches": 4}
    weighed = field == "stage_weights"
    times = {} if weighed else {"forward_ms": 1, "backward_ms": 1}
    for value in [[1, below]] if weighed else [below, [1, below]]:
        document = scenario({**sizes, **times, field: value}, compute_ms=300 if weighed else None)
        with pytest.raises(InvalidScenario) as caught:
            decode_scenario(document)
        (problem,) = caught.value.problems
        assert problem.code == "out_of_range"
        assert problem.pointer.startswith(f"/pipeline/{field}")


@pytest.mark.parametrize(
    ("name", "microbatches", "chunks", "source"),
    [
        *((*plan, source) for plan in PLANS for source in SOURCES[::2]),
        *(("zb1p", 4, 1, source) for source in SOURCES[1::2]),
    ],
)
def test_no_time_within_the_bounds_makes_anything_unknown(
    name: str, microbatches: int, chunks: int, source: dict[str, Any]
) -> None:
    sizes = {"schedule": name, "microbatches": microbatches, "chunks_per_stage": chunks}
    usual = scenario({**sizes, "forward_ms": 1, "backward_ms": 2}, **source)
    extremes = [
        scenario({**sizes, "forward_ms": forward, "backward_ms": backward, "p2p_ms": p2p}, **source)
        for (forward, backward), p2p in product(TIMES, (0, LEAST, MOST))
    ]
    assert unknown(evaluated(*extremes)) == unknown(evaluated(usual))


@pytest.mark.parametrize("weights", [[1e-9, 1e-9], [1e-9, 1e9], [1e9, 1e9]])
@pytest.mark.parametrize("compute", [LEAST, MOST])
def test_no_weights_within_the_bounds_make_anything_unknown(
    weights: list[float], compute: float
) -> None:
    sizes = {"schedule": "1f1b", "microbatches": 4}
    for source in SOURCES[::2]:
        extremes = [
            scenario(
                {**sizes, "stage_weights": weights, "p2p_ms": p2p}, compute_ms=compute, **source
            )
            for p2p in (0, MOST)
        ]
        usual = scenario(sizes, compute_ms=300, **source)
        assert unknown(evaluated(*extremes)) == unknown(evaluated(usual))


def test_as_many_micro_batches_as_a_field_takes() -> None:
    """1F1B of equal stages: (M + P - 1)(f + b), and handing on at most P - 1 times both ways."""
    for each, p2p in product((LEAST, MOST), (0, MOST)):
        pipeline = {
            "schedule": "1f1b",
            "microbatches": 65_536,
            "forward_ms": each,
            "backward_ms": each,
        }
        found = evaluated(scenario({**pipeline, "p2p_ms": p2p}))
        assert unknown(found) == unknown(evaluated(scenario({**pipeline, "microbatches": 4})))
        if not p2p:
            makespan = found.columns["pipeline_makespan_ms"][0]
            assert makespan == pytest.approx(65_537 * 2 * each, rel=1e-9)


def test_a_cluster_that_is_not_held_whole_says_so() -> None:
    """Of more than 2^20 GPUs that are drawn together there is no number of operations."""
    varied = {"variability": {"transient": {"kind": "gamma", "cv": 0.1}}, "draws": 16}
    pipeline = {"schedule": "1f1b", "microbatches": 2, "stages": 2}
    for reason in (
        {"slow_groups": [{"count": 1, "speed_fraction": 0.7, "placement": "random"}]},
        {
            "variability": {"persistent": {"kind": "gamma", "cv": 0.1}},
            "num_spare_gpus": 2,
        },
    ):
        document = {
            "compute_ms": 300,
            "num_gpus": 2**20 + 2,
            "pipeline": pipeline,
            **varied,
            **reason,
        }
        with pytest.raises(InvalidScenario) as caught:
            decode_scenario(document)
        (problem,) = caught.value.problems
        assert (problem.pointer, problem.code) == ("/num_gpus", "too_many_operations_sampled")
        assert str(2**20) in problem.detail
        assert "together" in problem.detail
        assert "inf" not in problem.detail
