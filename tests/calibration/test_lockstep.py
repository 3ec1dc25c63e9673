import numpy as np
import pytest

from service.calibration.lockstep import largest_of, of_gpu


@pytest.mark.parametrize(
    ("num_gpus", "mean", "deviation"),
    # stragglers.md, 2.2
    [(1, 0, 1), (2, 0.56418958354776, 0.8256452712), (8, 1.4236003060453, 0.6106530466)],
)
def test_the_largest_of_standard_normal_numbers(
    num_gpus: int, mean: float, deviation: float
) -> None:
    assert largest_of(num_gpus) == pytest.approx((mean, deviation), rel=1e-7)


def test_groups_of_such_gpus_vary_as_was_said() -> None:
    found = of_gpu(0.02, 4)
    assert found is not None
    draws = 1 + found.cv * np.random.default_rng(0).standard_normal((400_000, 4))
    groups = draws.max(axis=1)
    assert groups.std() / groups.mean() == pytest.approx(0.02, rel=0.01)
    assert groups.mean() == pytest.approx(found.group_to_gpu, rel=1e-3)


def test_no_spread_of_gpus_makes_groups_so_uneven() -> None:
    assert of_gpu(0.4, 8) is None
    alone = of_gpu(0.4, 1)
    assert alone is not None
    assert (alone.cv, alone.group_to_gpu) == (0.4, 1)
