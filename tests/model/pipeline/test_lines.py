import numpy as np
import pytest

from service.model.pipeline.engine import makespans
from service.model.pipeline.lines import lines_of
from service.model.pipeline.plans import plan_of
from tests.model.pipeline.pipeline_cases import random_cases
from tests.model.pipeline.pipeline_sizes import NAMES, valid_sizes

POINTS = 12


@pytest.mark.parametrize("name", NAMES)
def test_lines_are_the_makespan_whatever_the_factor(name: str) -> None:
    rng = np.random.default_rng(6)
    for sizes in list(valid_sizes(name, 5, 11, 3))[::14]:
        cases = random_cases(rng, name, sizes, POINTS)
        forward, backward = cases.forward.copy(), cases.backward.copy()
        forward[:, : POINTS // 2] = forward[0, : POINTS // 2]
        backward[:, : POINTS // 2] = backward[0, : POINTS // 2]
        share = cases.weight_fraction
        lines = lines_of(cases.plan, forward, backward, weight_fraction=share, p2p=cases.p2p)
        for s in (1e-9, 1e-3, *rng.uniform(0.01, 4, 20), 30.0, 1e6):
            expected = makespans(
                cases.plan, s * forward, s * backward, weight_fraction=share, p2p=cases.p2p
            )
            assert lines.value(np.full(POINTS, s)) == pytest.approx(expected, rel=1e-11), sizes


def test_lines_of_1f1b_with_a_slow_stage_by_hand() -> None:
    """Two ranks, one micro-batch: all four operations in turn and two messages, one line."""
    lines = lines_of(
        plan_of("1f1b", 2, 1, 1),
        np.array([[1.0], [2.0]]),
        np.array([[3.0], [4.0]]),
        weight_fraction=np.array([0.5]),
        p2p=np.array([0.25]),
    )
    assert lines.slope == pytest.approx(np.array([[10.0]]))
    assert lines.offset == pytest.approx(np.array([[0.5]]))


def test_lines_of_gpipe_with_a_slow_last_stage_by_hand() -> None:
    """Two ranks, two micro-batches, the last rank slow: it works 2 (2 + 4) after one forward.

    With short operations the messages count and the chain is 1, 2, 2, 4, 4, 3 in any case.
    """
    lines = lines_of(
        plan_of("gpipe", 2, 2, 1),
        np.array([[1.0], [2.0]]),
        np.array([[3.0], [4.0]]),
        weight_fraction=np.array([0.5]),
        p2p=np.array([0.25]),
    )
    assert lines.slope == pytest.approx(np.array([[16.0]]))
    assert lines.offset == pytest.approx(np.array([[0.5]]))


def test_without_p2p_there_is_one_line_without_offset() -> None:
    rng = np.random.default_rng(8)
    cases = random_cases(rng, "zb1p", (4, 9, 1), 3)
    share = cases.weight_fraction
    none = np.zeros(1)
    lines = lines_of(cases.plan, cases.forward, cases.backward, weight_fraction=share, p2p=none)
    expected = makespans(cases.plan, cases.forward, cases.backward, weight_fraction=share, p2p=none)
    assert lines.offset.tolist() == [[0.0] * 3]
    assert lines.slope == pytest.approx(expected[np.newaxis], rel=1e-13)
