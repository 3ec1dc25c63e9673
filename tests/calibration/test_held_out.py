import numpy as np
import pytest

from service.calibration.fitted import fitted_of
from service.calibration.held_out import (
    held_out_of,
    independent_normal_ratio,
    predicted_max_to_mean,
    usual_node_size,
)
from service.calibration.observed import observed_of
from tests.calibration.compute_tables import factors_of, observed_of_matrix, trace
from tests.calibration.synthetic_tables import Kind, table_of


@pytest.mark.parametrize(("name", "expected"), [("st", 1.3378), ("ar", 1.5263)])
def test_independent_normal_draws_are_far_off(name: str, expected: float) -> None:
    # stragglers.md, section 5
    cells = trace(name, with_stages=False).compute_ms
    assert independent_normal_ratio(cells) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("gpus_per_rank", [1, 4])
@pytest.mark.parametrize("with_stages", [False, True])
@pytest.mark.parametrize("name", ["st", "ar"])
def test_held_out_steps_of_the_public_traces(
    name: str,
    with_stages: bool,  # noqa: FBT001
    gpus_per_rank: int,
) -> None:
    observed = observed_of(trace(name, with_stages=with_stages))
    found = held_out_of(observed, gpus_per_rank, 0.9)
    assert found is not None
    assert abs(found.relative_error) < 0.05
    # far inside of it
    assert abs(found.relative_error) < 0.003
    normal = found.independent_normal_max_to_mean_ratio
    assert abs(normal / found.observed_max_to_mean_ratio.value - 1) > 0.05
    assert found.num_fitted_steps + found.num_held_out_steps == len(observed.steps)


@pytest.mark.parametrize(
    "kind",
    [
        Kind(40, 16),
        Kind(60, 64, law="lognormal", persistent=0.02, transient=0.1),
        Kind(60, 64, law="gamma", persistent=0.02, transient=0.08, slow=(0.7, 0.8)),
        Kind(60, 32, node=0.04),
        Kind(60, 32, replica=0.04),
        Kind(60, 32, num_stages=4, missing=0.05),
        Kind(60, 32, phi=0.8),
        Kind(20, 8, slow=(0.5,)),
    ],
)
def test_held_out_steps_of_known_laws(kind: Kind) -> None:
    for seed in range(3):
        found = held_out_of(observed_of(table_of(kind, seed).timings), 1, 0.9)
        assert found is not None
        assert abs(found.relative_error) < 0.05


def test_spikes_are_in_the_prediction() -> None:
    cells = factors_of((200, 64), rank=0.01, step=0.02, rest=0.01)
    hits = np.random.default_rng(1).random(cells.shape) < 0.005
    cells[hits] *= 2
    found = held_out_of(observed_of_matrix(cells), 1, 0.9)
    assert found is not None
    # 64 ranks: in 27 % of the steps somebody is twice as slow
    assert found.observed_max_to_mean_ratio.value > 1.2
    assert abs(found.relative_error) < 0.05


def test_lockstep_groups_are_predicted_as_groups() -> None:
    cells = factors_of((60, 16), rank=0.02, step=0.02, rest=0.02)
    alone = held_out_of(observed_of_matrix(cells), 1, 0.9)
    grouped = held_out_of(observed_of_matrix(cells), 8, 0.9)
    assert alone is not None
    assert grouped is not None
    assert grouped.predicted_max_to_mean_ratio == pytest.approx(
        alone.predicted_max_to_mean_ratio, rel=0.005
    )


def test_halves_that_tell_too_little_are_not_fitted() -> None:
    assert (
        held_out_of(observed_of_matrix(factors_of((1, 8), rank=0.1, step=0, rest=0)), 1, 0.9)
        is None
    )
    cells = factors_of((8, 8), rank=0.02, step=0.02, rest=0.02)
    assert held_out_of(observed_of_matrix(cells), 1, 0.9) is None


def test_many_speeds_are_put_together_until_the_model_takes_them() -> None:
    cells = factors_of((40, 64), rank=0.01, step=0.02, rest=0.01)
    cells[:, :12] *= np.linspace(1.2, 3, 12)
    nodes = np.arange(64) // 8
    fitted = fitted_of(observed_of_matrix(cells, nodes=nodes), 0.9)
    predicted = predicted_max_to_mean(fitted, 1)
    assert predicted == pytest.approx((cells.max(axis=1) / cells.mean(axis=1)).mean(), rel=0.05)
    assert usual_node_size(nodes) == 8


def test_no_prediction_without_a_scenario_that_the_model_takes() -> None:
    # 1 024 GPUs of a rank times 11 000 ranks are more than the model's ten million
    cells = factors_of((10, 11_000), rank=0.01, step=0.01, rest=0.01)
    assert held_out_of(observed_of_matrix(cells), 1024, 0.9) is None
