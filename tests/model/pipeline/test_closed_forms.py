from typing import Any

import numpy as np
import pytest

from service.model.pipeline.closed_forms import closed_makespans
from service.model.pipeline.engine import makespans
from service.model.pipeline.plans import plan_of
from tests.model.pipeline.pipeline_sizes import NAMES, SPLIT, valid_sizes

POINTS = 30


def _stage_ms(rng: np.random.Generator, stages: int, *, equal: bool) -> dict[str, Any]:
    rows = 1 if equal else stages
    return {
        "forward": np.ones((stages, 1)) * rng.uniform(0.2, 3, (rows, POINTS)),
        "backward": np.ones((stages, 1)) * rng.uniform(0.2, 3, (rows, POINTS)),
        "weight_fraction": rng.uniform(0.2, 0.8, POINTS),
        "p2p": rng.uniform(0, 2, POINTS) * rng.choice([0, 0.02, 0.2, 1, 5], POINTS),
    }


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("name", ["naive", "gpipe", "1f1b", "interleaved_1f1b"])
def test_a_formula_that_is_given_is_the_makespan_of_all_operations(
    name: str, *, equal: bool
) -> None:
    rng = np.random.default_rng(11)
    for sizes in list(valid_sizes(name, 6, 13, 3))[:: 2 if equal else 7]:
        given = _stage_ms(rng, sizes[0], equal=equal)
        found = closed_makespans(name, *sizes, **given)
        expected = makespans(plan_of(name, *sizes), **given)
        exact = ~np.isnan(found)
        assert found[exact] == pytest.approx(expected[exact], rel=1e-12), sizes


@pytest.mark.parametrize("name", NAMES)
def test_one_stage_waits_for_nobody(name: str) -> None:
    given = _stage_ms(np.random.default_rng(12), 1, equal=True)
    for sizes in valid_sizes(name, 1, 5, 3):
        found = closed_makespans(name, *sizes, **given)
        assert found == pytest.approx(makespans(plan_of(name, *sizes), **given), rel=1e-12)


def test_1f1b_with_p2p_on_thousands_of_random_pipelines() -> None:
    """The formula has no proof: 2 400 cases, up to 24 stages and 60 micro-batches."""
    rng = np.random.default_rng(13)
    for _ in range(80):
        stages, microbatches = int(rng.integers(2, 25)), int(rng.integers(1, 61))
        given = _stage_ms(rng, stages, equal=True)
        found = closed_makespans("1f1b", stages, microbatches, 1, **given)
        expected = makespans(plan_of("1f1b", stages, microbatches, 1), **given)
        assert found == pytest.approx(expected, rel=1e-12)


def test_where_formulas_are_given() -> None:
    rng = np.random.default_rng(2)
    equal, unequal = (_stage_ms(rng, 4, equal=same) for same in (True, False))
    p2p, forward = equal["p2p"], np.minimum(equal["forward"], equal["backward"])[0]

    def is_given(name: str, stages_ms: dict[str, Any], *sizes: int) -> list[bool]:
        found = closed_makespans(name, *sizes, **stages_ms)
        there: list[bool] = (~np.isnan(found)).tolist()
        return there

    assert all(is_given("naive", unequal, 4, 1, 1))
    assert all(is_given("gpipe", equal, 4, 7, 1))
    assert is_given("gpipe", unequal, 4, 7, 1) == (unequal["p2p"] == 0).tolist()
    assert all(is_given("1f1b", equal, 4, 7, 1))
    assert not any(is_given("1f1b", unequal, 4, 7, 1))
    assert is_given("interleaved_1f1b", equal, 4, 8, 2) == (p2p <= forward / 2).tolist()
    assert not any(is_given("interleaved_1f1b", equal, 4, 10, 2))
    assert not any(is_given("interleaved_1f1b", unequal, 4, 8, 2))
    for name in SPLIT:
        assert not any(is_given(name, equal, 4, 8, 2))
    one = {key: values[:1] if values.ndim == 2 else values for key, values in unequal.items()}
    for name in SPLIT:
        assert all(is_given(name, one, 1, 8, 2))


def test_formulas_by_hand() -> None:
    given: dict[str, Any] = {
        "forward": np.ones((8, 1)),
        "backward": 2 * np.ones((8, 1)),
        "weight_fraction": np.array([0.5]),
        "p2p": np.array([0.1]),
    }
    assert closed_makespans("naive", 8, 1, 1, **given) == pytest.approx(24 + 1.4)
    assert closed_makespans("gpipe", 8, 4, 1, **given) == pytest.approx(33 + 1.4)
    assert closed_makespans("1f1b", 8, 4, 1, **given) == pytest.approx(33 + 0.2 * 9)
    assert closed_makespans("interleaved_1f1b", 8, 16, 2, **given) == pytest.approx(58.5 + 3)
