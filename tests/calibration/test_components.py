import numpy as np
import pytest

from service.calibration.components import Split, components_of, plain_components, split_of
from service.calibration.observed import Observed
from service.calibration.timings import FloatArray
from tests.calibration.compute_tables import factors_of, observed_of_matrix, trace


def split(cells: FloatArray, observed: Observed | None = None, num_kinds: int = 1) -> Split:
    table = observed_of_matrix(cells) if observed is None else observed
    return split_of(cells / np.nanmean(cells), table, 0.9, num_kinds=num_kinds)


@pytest.mark.parametrize(
    ("name", "persistent", "common", "rest"),
    [("st", 0.2522, 0.0209, 0.0049), ("ar", 0.3074, 0.0080, 0.0046)],
)
def test_the_public_traces(name: str, persistent: float, common: float, rest: float) -> None:
    timings = trace(name, with_stages=False)
    observed = observed_of_matrix(timings.compute_ms, steps=timings.steps)
    found = plain_components(observed, 0.9, are_alike=False)
    assert found.persistent_cv is not None
    assert found.common_cv is not None
    assert found.transient_cv is not None
    assert found.persistent_cv.value == pytest.approx(persistent, abs=5e-5)
    assert found.common_cv.value == pytest.approx(common, abs=5e-5)
    assert found.transient_cv.value == pytest.approx(rest, abs=5e-5)
    assert found.persistent_cv.low is None
    assert found.common_cv.low is not None


def test_products_are_taken_into_account() -> None:
    # 20 % each: the rest's variance is t²(1 + p²)(1 + c²) + p²c², 12 % above t²
    found = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        ranks = np.exp(0.2 * rng.standard_normal(40) - 0.02)
        steps = np.exp(0.2 * rng.standard_normal((60, 1)) - 0.02)
        rest = np.exp(0.2 * rng.standard_normal((60, 40)) - 0.02)
        found.append(split(ranks * steps * rest).cv("transient"))
    truth = np.sqrt(np.expm1(0.04))
    assert np.mean(found) == pytest.approx(truth, abs=4 * np.std(found) / np.sqrt(80) + 0.001)


def test_nothing_is_found_where_nothing_is() -> None:
    from_nothing = 0
    for seed in range(60):
        cells = factors_of((20, 6), rank=0, step=0, rest=0.02, seed=seed)
        found = components_of(split(cells))
        assert found.node_cv is found.replica_cv is None
        for estimate in (found.persistent_cv, found.common_cv):
            assert estimate is not None
            assert estimate.low is not None
            assert estimate.high is not None
            assert estimate.low <= estimate.value <= estimate.high < 0.03
            from_nothing += estimate.low == 0
    # 95 % of 120; with 99.9 % at least 105
    assert from_nothing >= 105


def test_nodes_and_replicas_are_nested() -> None:
    rng = np.random.default_rng(8)
    nodes, replicas = np.arange(96) // 8, np.arange(96) // 4
    cells = (
        (1 + 0.05 * rng.standard_normal(12))[nodes]
        * (1 + 0.02 * rng.standard_normal(96))
        * (1 + 0.03 * rng.standard_normal((200, 24)))[:, replicas]
        * (1 + 0.01 * rng.standard_normal((200, 96)))
    )
    observed = observed_of_matrix(cells, nodes=nodes, replicas=replicas)
    found = split(cells, observed)
    assert found.cv("node") == pytest.approx(0.05, rel=0.5)
    assert found.cv("persistent") == pytest.approx(0.02, rel=0.2)
    assert found.cv("replica") == pytest.approx(0.03, rel=0.05)
    assert found.cv("transient") == pytest.approx(0.01, rel=0.02)
    assert found.lasting_dof == 11


def test_unequal_nodes_by_brute_force() -> None:
    sizes = np.array([1, 2, 5, 8])
    nodes = np.repeat(np.arange(4), sizes)
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        ranks = (1 + 0.04 * rng.standard_normal(4))[nodes] * (1 + 0.02 * rng.standard_normal(16))
        cells = ranks * np.ones((10, 1)) * (1 + 0.001 * rng.standard_normal((10, 16)))
        part = split(cells, observed_of_matrix(cells, nodes=nodes)).node
        assert part is not None
        found.append(part.variance)
    error = np.std(found) / np.sqrt(200)
    # cut at 0, which raises the mean a little
    assert np.mean(found) == pytest.approx(0.0016, abs=4 * error)


@pytest.mark.parametrize(
    ("nodes", "replicas"),
    [
        (np.arange(6), np.arange(6)),
        (np.zeros(6, dtype=np.int64), np.zeros(6, dtype=np.int64)),
    ],
)
def test_labels_that_tell_nothing_are_left_out(nodes: np.ndarray, replicas: np.ndarray) -> None:
    cells = factors_of((20, 6), rank=0.02, step=0.02, rest=0.01)
    found = split(cells, observed_of_matrix(cells, nodes=nodes, replicas=replicas))
    assert found.node is found.replica is None


def test_two_ranks_of_one_replica_beside_two_others_in_two_steps() -> None:
    cells = factors_of((12, 3), rank=0.02, step=0.02, rest=0.01)
    # the only pair of ranks never shares a step
    cells[::2, 0], cells[1::2, 1] = np.nan, np.nan
    found = split(cells, observed_of_matrix(cells, replicas=np.array([0, 0, 1])))
    assert found.replica is None


def test_stages_take_their_degrees_of_freedom() -> None:
    cells = factors_of((20, 8), rank=0.02, step=0.02, rest=0.01)
    stages = np.arange(8) % 4
    of_stages = cells.copy()
    for stage in range(4):
        of_stages[:, stages == stage] /= of_stages[:, stages == stage].mean()
    found = split(of_stages, observed_of_matrix(of_stages, stages=stages), num_kinds=4)
    assert found.persistent is not None
    assert found.persistent.dof == 4
    across = observed_of_matrix(of_stages, stages=stages, nodes=np.arange(8) // 4)
    assert split(of_stages, across, num_kinds=4).node is not None
    inside = observed_of_matrix(of_stages, stages=stages, nodes=stages)
    # as many nodes as stages: nothing is left for nodes
    assert split(of_stages, inside, num_kinds=4).node is None
    alone = split(of_stages[:, :4], num_kinds=4)
    assert alone.persistent is None
    assert alone.lasting_dof == 1


def test_tails_beyond_chance_widen_the_interval() -> None:
    rng = np.random.default_rng(3)
    normal = 100 * (1 + 0.02 * rng.standard_normal((100, 40)))
    tailed = normal.copy()
    tailed[rng.random(tailed.shape) < 0.005] *= 1.3
    uneven = 100 + (normal - 100) * np.where(np.arange(40) < 4, 6.0, 1.0)

    def relative_width(cells: FloatArray) -> float:
        part = split(cells).transient
        assert part is not None
        return float((part.ends.high - part.ends.low) / part.variance)

    assert relative_width(tailed) > 2 * relative_width(normal)
    assert relative_width(uneven) > 5 * relative_width(normal)


def test_steps_and_ranks_with_a_tail_widen_theirs() -> None:
    cells = factors_of((100, 40), rank=0.02, step=0.02, rest=0.01, seed=2)
    cells[3] *= 1.3
    cells[:, 5] *= 1.3
    found = split(cells)
    assert found.common is not None
    assert found.persistent is not None
    assert found.common.dof < 30
    assert found.persistent.dof < 15


def test_a_chain_of_cells_leaves_nothing_for_the_rest() -> None:
    cells = np.full((12, 13), np.nan)
    for step in range(12):
        cells[step, step : step + 2] = [1.0 + step % 3, 2.0]
    found = split(cells)
    assert found.transient is None
    assert found.autocorrelation.lag_1 is None
