"""What must hold for every scenario with a pipeline, at the level of results."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.model.columns import columns_of, joined
from service.model.kernel import evaluate
from service.model.results import ATTRIBUTION_COLUMNS, PIPELINE_COLUMNS
from service.model.scenario import decode_scenario
from tests.model.random_pipes import WAYS, sound_scenario
from tests.soak.whole_pipelines import results, step_error

SEEDS = st.integers(0, 2**32 - 1)
IDLE_PARTS = ("fill", "imbalance", "p2p", "jitter")


def quick(seed: int, way: str, **changes: Any) -> dict[str, Any]:
    """A random scenario whose simulation takes no time."""
    return {**sound_scenario(np.random.default_rng(seed), way), "draws": 16, **changes}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=2, deadline=None)
@example(seed=453)
@given(seed=SEEDS)
def test_causes_and_idle_times_sum_up(way: str, seed: int) -> None:
    document = quick(seed, way)
    found = results(document)
    available = found["gpu_hours_available"]
    assert sum(found[name] for name in ATTRIBUTION_COLUMNS) == pytest.approx(available, rel=1e-9)
    stands_by = {"num_spare_gpus", "num_evicted_gpus"} & set(document)
    for name in set(ATTRIBUTION_COLUMNS) - {"gpu_hours_backup_workers"}:
        assert found[name] >= 0 or stands_by, name
    idle = sum(found[f"pipeline_idle_{part}_ms"] for part in IDLE_PARTS)
    slack = 1e-9 * found["pipeline_makespan_ms"]
    assert idle == pytest.approx(found["pipeline_idle_ms"], abs=slack)
    for part in ("", "_fill", "_p2p"):
        assert found[f"pipeline_idle{part}_ms"] >= -slack
    busy = found["pipeline_makespan_ms"] - found["pipeline_idle_ms"]
    assert found["bubble_to_ideal_ratio"] * busy == pytest.approx(idle, abs=slack)
    assert found["bubble_fraction"] * found["pipeline_makespan_ms"] == pytest.approx(
        found["pipeline_idle_ms"], abs=slack
    )
    assert all(np.isfinite(found[name]) for name in PIPELINE_COLUMNS)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=2, deadline=None)
@given(seed=SEEDS, longer=st.floats(0.01, 30))
def test_handing_on_never_helps(way: str, seed: int, longer: float) -> None:
    document = quick(seed, way)
    pipeline = document["pipeline"]
    other = {**document, "pipeline": {**pipeline, "p2p_ms": pipeline["p2p_ms"] + longer}}
    plain, slower = results(document), results(other)
    for name in ("pipeline_makespan_ms", "pipeline_makespan_ms_p50", "bubble_fraction"):
        assert slower[name] >= plain[name] * (1 - 1e-9) - 1e-9, name
    # What steadies the mean of a sample is fitted to each: within the errors.
    slack = 4 * (step_error(plain) + step_error(slower)) + 1e-9 * plain["step_mean_ms"]
    assert slower["step_mean_ms"] >= plain["step_mean_ms"] - slack


@settings(max_examples=2, deadline=None)
@given(seed=SEEDS, cv=st.floats(0.02, 0.2), more=st.floats(1.5, 3))
def test_jitter_never_helps(seed: int, cv: float, more: float) -> None:
    """A pass is convex in the times of its operations, and so is the longest of several passes.

    Not where the slowest replicas are left behind: the fastest of those that differ are faster.
    """
    waiting = {"kind": "every_step"}
    document = quick(seed, "slow_only", draws=128, synchronization=waiting, variability={})
    pipeline = document["pipeline"]
    found = [
        results({**document, "pipeline": {**pipeline, "per_op_jitter": jitter}})
        for jitter in (
            None,
            {"kind": "lognormal", "cv": cv},
            {"kind": "lognormal", "cv": cv * more},
        )
    ]
    for less, jittered in pairwise(found):
        error = np.hypot(step_error(less), step_error(jittered))
        slack = 4 * error + 1e-9 * less["step_mean_ms"]
        assert jittered["step_mean_ms"] >= less["step_mean_ms"] - slack
        assert jittered["gpu_hours_lost"] >= less["gpu_hours_lost"] - (
            slack / less["step_mean_ms"] * less["gpu_hours_available"]
        )


def test_more_draws_make_smaller_errors() -> None:
    document = {
        "num_gpus": 24,
        "compute_ms": 120,
        "pipeline": {"schedule": "1f1b", "stages": 4, "microbatches": 8, "p2p_ms": 0.3},
        "variability": {"transient": {"kind": "gamma", "cv": 0.1}},
    }
    few, many = (results({**document, "draws": draws}) for draws in (250, 4000))
    for name in ("gpu_hours_lost_se", "pipeline_makespan_ms_se"):
        assert many[name] < few[name]
    # Four times the draws halve it.
    assert few["gpu_hours_lost_se"] / many["gpu_hours_lost_se"] == pytest.approx(4, rel=0.25)
    error = np.hypot(step_error(few), step_error(many))
    assert few["step_mean_ms"] == pytest.approx(many["step_mean_ms"], abs=4 * error)


def test_points_are_the_same_alone_among_others_and_in_pieces() -> None:
    documents = [quick(1000 + number, way) for number in range(1) for way in WAYS]
    parts = [columns_of(decode_scenario(document)) for document in documents]
    whole = evaluate(joined(parts), with_spread=False)
    assert not whole.failure.any()
    pieces = [
        evaluate(joined(parts[row:stop]), with_spread=False)
        for row, stop in ((0, 4), (4, len(parts)))
    ]
    singles = [evaluate(part, with_spread=False) for part in parts]
    for name, values in whole.columns.items():
        alone = np.concatenate([single.columns[name] for single in singles])
        in_pieces = np.concatenate([piece.columns[name] for piece in pieces])
        for others in (in_pieces, alone):
            np.testing.assert_allclose(values, others, rtol=1e-9, atol=1e-9, err_msg=name)
