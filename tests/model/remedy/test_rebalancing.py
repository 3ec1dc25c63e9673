"""Work shared out by speed, against sums by hand and brute force."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.remedy.rebalancing import NotRebalancedError, rebalanced_ratio
from service.model.scenario import decode_scenario

DRAWS = 40_000


def ratio(**changes: Any) -> float:
    document = {"num_gpus": 64, "compute_ms": 300, **changes}
    return rebalanced_ratio(columns_of(decode_scenario(document)))


def cv(value: float, kind: str = "lognormal") -> dict[str, Any]:
    return {"kind": kind, "cv": value}


def lognormal(generator: np.random.Generator, coefficient: float, shape: Any) -> Any:
    sigma = np.sqrt(np.log1p(coefficient**2))
    return np.exp(sigma * generator.standard_normal(shape) - sigma**2 / 2)


def z_score(found: float, samples: Any) -> float:
    error = samples.std(ddof=1) / np.sqrt(len(samples))
    return float((samples.mean() - found) / error)


def test_slow_groups_share_the_work_by_their_speed() -> None:
    groups = [{"count": 1, "speed_fraction": 0.7}, {"count": 7, "speed_fraction": 0.9}]
    assert ratio(slow_groups=groups) == pytest.approx(64 / (56 + 0.7 + 7 * 0.9), rel=1e-14)


def test_the_slowest_do_not_take_part_where_gpus_stand_by() -> None:
    groups = [{"count": 2, "speed_fraction": 0.9}, {"count": 3, "speed_fraction": 0.7}]
    # 66 GPUs of which the 2 slowest stand by
    spares = ratio(slow_groups=groups, num_spare_gpus=2)
    assert spares == pytest.approx(64 / (61 + 2 * 0.9 + 0.7), rel=1e-14)
    evicted = ratio(slow_groups=groups, num_evicted_gpus=4)
    assert evicted == pytest.approx(60 / (59 + 0.9), rel=1e-14)


@pytest.mark.parametrize(("num_gpus", "coefficient"), [(8, 0.05), (64, 0.1), (64, 0.3)])
def test_persistent_speeds_against_brute_force(num_gpus: int, coefficient: float) -> None:
    generator = np.random.default_rng(11)
    speeds = 1 / lognormal(generator, coefficient, (DRAWS, num_gpus))
    found = ratio(num_gpus=num_gpus, variability={"persistent": cv(coefficient)})
    assert abs(z_score(found, 1 / speeds.mean(axis=1))) < 4


def test_nodes_and_slow_groups_against_brute_force() -> None:
    generator = np.random.default_rng(12)
    # 20 GPUs: nodes of 8, 8 and 4; five slow ones fall anywhere.
    base = np.array([0.6] * 5 + [1.0] * 15)
    groups = generator.permuted(np.tile(base, (DRAWS, 1)), axis=1)
    gpus = lognormal(generator, 0.06, (DRAWS, 20))
    nodes = np.repeat(lognormal(generator, 0.15, (DRAWS, 3)), 8, axis=1)[:, :20]
    found = ratio(
        num_gpus=20,
        slow_groups=[{"count": 5, "speed_fraction": 0.6}],
        variability={"persistent": cv(0.06), "node": cv(0.15)},
    )
    assert abs(z_score(found, 1 / (groups / (gpus * nodes)).mean(axis=1))) < 4


def test_one_gpu_takes_its_expected_time() -> None:
    # E[1/v] = E[X] = 1, to the fourth order of the cv
    assert ratio(num_gpus=1, variability={"persistent": cv(0.05)}) == pytest.approx(1, abs=2e-5)


def test_many_gpus_have_the_mean_speed() -> None:
    sigma_square = np.log1p(0.1**2)
    found = ratio(num_gpus=1_000_000, variability={"persistent": cv(0.1)})
    # E[1/X] of a lognormal of mean 1 is exp(sigma^2)
    assert found == pytest.approx(np.exp(-sigma_square), rel=1e-7)


def test_what_has_no_second_order_is_refused() -> None:
    with pytest.raises(NotRebalancedError, match="relative variance"):
        ratio(num_gpus=2, variability={"persistent": cv(0.5)})
    with pytest.raises(NotRebalancedError, match="relative variance"):
        ratio(variability={"persistent": cv(1.0, "gamma")})
    with pytest.raises(NotRebalancedError, match="use lognormal"):
        ratio(variability={"persistent": cv(0.2, "normal")})
    with pytest.raises(NotRebalancedError, match="no simple mean"):
        ratio(variability={"persistent": cv(0.05)}, num_spare_gpus=1)
