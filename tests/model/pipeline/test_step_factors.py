"""Factors of single steps."""

from typing import Any

import numpy as np
import pytest

from service.model.laws.law import Floats
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.shape import RANDOM
from service.model.pipeline.step_factors import DRAWS_OF_STATE, DrawnSteps
from tests.model.pipeline.piped_fleets import cluster_of

LANES = range(500)


def _drawn(**given: Any) -> DrawnSteps:
    return DrawnSteps(cluster_of(**given), seed=0)


def _stages(drawn: DrawnSteps, lanes: range = LANES, replicas: range = range(2)) -> Floats:
    """(steps, replicas, stages, draws)."""
    return np.array([factors.of_stages() for factors in drawn.of_round(lanes, replicas)])


def test_a_stage_is_as_slow_as_its_slowest_gpu() -> None:
    drawn = _drawn(transient=("gamma", 0.1), tensor=4)
    each = next(iter(drawn.of_round(LANES, range(2), each_gpu=True)))
    assert each.own.shape == (2, 3, 4, len(LANES) * LANE)
    np.testing.assert_allclose(_stages(drawn)[0], each.own.max(axis=2), rtol=1e-12)
    # The short way, over scores, holds one GPU of each stage.
    assert next(iter(drawn.of_round(LANES, range(2)))).own.shape[2] == 1


def test_correlated_in_time() -> None:
    drawn = _drawn(transient=("normal", 0.1), round_steps=4, autocorrelation=0.6)
    score = (_stages(drawn) - 1) / 0.1
    number = score[0].size
    for lag in range(4):
        for step in range(4 - lag):
            product = (score[step] * score[step + lag]).mean()
            assert abs(product - 0.6**lag) < 5 * (2 / number) ** 0.5
    alone = _drawn(transient=("normal", 0.1), round_steps=2)
    first = _stages(alone)
    np.testing.assert_array_equal(first[0], _stages(drawn)[0])
    assert abs(np.corrcoef(first[0].ravel(), first[1].ravel())[0, 1]) < 0.02


def test_what_is_shared() -> None:
    drawn = _drawn(replica=("normal", 0.1), common=("lognormal", 0.2), tensor=2)
    stages = _stages(drawn)[0]
    assert (stages == stages[:, :1]).all()
    common = drawn.common(LANES)
    assert common.shape == (1, len(LANES) * LANE)
    of_replica = stages[:, 0] / common
    assert np.log(common).std() == pytest.approx(np.log(1.04) ** 0.5, rel=0.05)
    assert of_replica.std() == pytest.approx(0.1, rel=0.05)
    assert abs(np.corrcoef(of_replica)[0, 1]) < 0.07


def test_spikes() -> None:
    drawn = _drawn(spikes=(0.1, 1.5), tensor=2)
    stages = _stages(drawn)[0]
    assert set(np.unique(stages)) == {1.0, 1.5}
    assert (stages > 1).mean() == pytest.approx(0.19, abs=4 * (0.16 / stages.size) ** 0.5)


def test_nothing_varies() -> None:
    drawn = _drawn(slow=[(1, 1.5, 0)], tensor=2)
    stages = _stages(drawn, range(1))[0]
    np.testing.assert_array_equal(stages[0, :, 0], [1.5, 1, 1])
    np.testing.assert_array_equal(stages[1], 1)


def test_episodes_last_for_some_draws() -> None:
    alone = _drawn(episodes=(0.2, 1.5))
    assert alone.draws_of_state == 1
    states = _stages(alone)[0]
    assert (states > 1).mean() == pytest.approx(0.2, abs=4 * (0.16 / states.size) ** 0.5)
    beside = _drawn(episodes=(0.2, 1.5), persistent=("normal", 0.001))
    assert beside.draws_of_state == DRAWS_OF_STATE
    shared = _stages(beside)[0].round(1).reshape(2, 3, -1, DRAWS_OF_STATE)
    # The k-th state is the same in both, and a part of the lanes has its own.
    np.testing.assert_array_equal(shared[..., 0], states[..., : shared.shape[2]].round(1))
    assert (shared == shared[..., :1]).all()
    part = _stages(beside, range(5, 7))[0].round(1)
    whole = shared.reshape(2, 3, -1)[..., 5 * LANE : 7 * LANE]
    np.testing.assert_array_equal(part, whole)


@pytest.mark.parametrize(
    ("given", "alike"),
    [
        ({"transient": ("normal", 0.1), "tensor": 1}, True),
        ({"transient": ("normal", 0.1)}, False),
        ({"spikes": (0.1, 1.5)}, False),
        ({"episodes": (0.1, 1.5)}, False),
        ({"slow": [(1, 1.5, RANDOM)]}, False),
        ({"slow": [(1, 1.5, 0)]}, False),
        ({"replica": ("normal", 0.1), "common": ("normal", 0.1)}, True),
    ],
)
def test_whether_gpus_of_a_stage_are_alike(
    given: dict[str, Any],
    alike: bool,  # noqa: FBT001 - a case
) -> None:
    assert _drawn(**{"tensor": 2, **given}).are_gpus_alike == alike


@pytest.mark.parametrize(
    "given",
    [
        {"transient": ("normal", 0.1), "round_steps": 2, "autocorrelation": 0.5},
        {"spikes": (0.1, 1.5), "persistent": ("normal", 0.1), "episodes": (0.1, 1.5)},
        {"replica": ("normal", 0.1), "slow": [(2, 1.5, RANDOM)]},
    ],
)
def test_parts_are_those_of_the_whole(given: dict[str, Any]) -> None:
    drawn = _drawn(replicas=6, tensor=2, **given)
    whole = _stages(drawn, range(4), range(6))
    part = _stages(drawn, range(1, 3), range(2, 5))
    columns = slice(LANE, 3 * LANE)
    np.testing.assert_array_equal(part, np.broadcast_to(whole, whole.shape)[:, 2:5, :, columns])
