from typing import Any

import numpy as np
import pytest

from service.model.recursion import runs
from service.model.recursion.lengths import Lengths
from service.model.recursion.runs import Run, run_of
from tests.model.fleets_for_tests import one_fleet
from tests.model.recursion.simulations import rounds, stale


def run(num_gpus: int = 24, **given: Any) -> Run:
    lengths = Lengths(*(np.array([number]) for number in (1, 16, 30)))
    pattern = given.pop("pattern", stale(2, load=0.2))
    return run_of(one_fleet([(num_gpus, 1)], **given), pattern, lengths, None, 4)


@pytest.mark.parametrize("size", [1, 4])
def test_tiles_make_no_difference(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {
        "transient": ("lognormal", 0.2),
        "persistent": ("normal", 0.1),
        "replica": ("gamma", 0.1),
        "tensor_parallel_size": size,
    }
    whole = run(**given)
    # All steps of a block at once, one step, and parts of the ranks.
    for tile in (24 * 8, 12 * 8, 1):
        monkeypatch.setattr(runs, "_TILE", tile)
        for expected, found in zip(whole, run(**given), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_one_rank_takes_its_own_steps() -> None:
    alone = run(num_gpus=1, transient=("normal", 0.1))
    np.testing.assert_allclose(alone.step, 1.2 + alone.control, rtol=1e-12)
    assert (alone.slowest == 1).all()


def test_groups_move_at_their_slowest_gpu() -> None:
    given: dict[str, Any] = {"transient": ("normal", 0.1), "pattern": rounds(1)}
    whole = run(num_gpus=8, tensor_parallel_size=8, **given)
    # One group, or a barrier of eight: the same step, on the same numbers.
    np.testing.assert_allclose(whole.step, run(num_gpus=8, **given).step, rtol=1e-12)


def test_control_follows_the_slowest_rank() -> None:
    # It is so much slower than the others that it alone makes the steps.
    found = run(persistent=("lognormal", 1.0), transient=("normal", 0.02))
    np.testing.assert_allclose(found.step, 0.2 + found.slowest + found.control, rtol=0.03)
    clear = found.slowest > np.median(found.slowest)
    np.testing.assert_allclose(
        found.step[clear], (0.2 + found.slowest + found.control)[clear], rtol=5e-3
    )
