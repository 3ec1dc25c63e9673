import re

import numpy as np
import pytest

from service.calibration.findings import Findings
from service.calibration.fit import fit
from service.calibration.options import CalibrationOptions
from service.calibration.timings import FloatArray, IntArray
from tests.calibration.compute_tables import factors_of, timings_of
from tests.calibration.synthetic_tables import Kind, table_of


def found_in(
    cells: FloatArray, *, nodes: IntArray | None = None, stages: IntArray | None = None
) -> Findings:
    return fit(timings_of(cells, nodes=nodes, stages=stages), CalibrationOptions())


def codes(found: Findings) -> list[str]:
    return [remark.code for remark in found.warnings]


def pareto(cv: float, shape: tuple[int, int]) -> FloatArray:
    power = 1 + np.sqrt(1 + cv**-2)
    draws = np.random.default_rng(3).random(shape) ** (-1 / power)
    return np.asarray(300 * (power - 1) / power * draws)


def test_a_tail_that_no_family_has_is_said_with_its_direction() -> None:
    rng = np.random.default_rng(1)
    # Every cell is one of two values, so the largest of 64 is always the same.
    cells = 300 * (1 + 0.1 * (rng.random((200, 64)) < 0.3)) * (1 + 0.001 * rng.random((200, 64)))
    found = found_in(cells)
    assert found.family.is_ruled_out
    (remark,) = (one for one in found.warnings if one.code == "tail_not_caught")
    # 1.1 / 1.03, and the largest of 64 means over a hundred steps, each off by 0.45 %
    assert re.search("seen is (6.[89]|7.)", remark.detail)
    assert "predicts more waiting than there is" in remark.detail


def test_a_spread_that_rests_on_a_few_cells_is_said() -> None:
    assert codes(found_in(pareto(0.2, (200, 16)))) == ["long_tail"]
    assert codes(found_in(pareto(0.03, (200, 16)))) == []


@pytest.mark.parametrize("cv", [0.05, 0.1])
def test_an_exponential_transient_is_found_as_one(cv: float) -> None:
    rng = np.random.default_rng(4)
    cells = factors_of((200, 32), rank=0.03, step=0.01, rest=0)
    found = found_in(cells * (1 - cv + cv * rng.exponential(1, cells.shape)))
    assert found.spikes is None
    assert found.warnings == []
    law = found.proposal.overrides["variability.transient"]
    assert law["kind"] == "exponential"
    assert law["cv"] == pytest.approx(cv, rel=0.05)
    assert found.held_out is not None
    assert abs(found.held_out.relative_error) < 0.03


def test_a_skewed_law_is_proposed_with_its_skewness() -> None:
    rng = np.random.default_rng(5)
    cells = 300 * (1 + 0.05 * (rng.gamma(4, 1, (200, 32)) - 4) / 2)
    law = found_in(cells).proposal.overrides["variability.transient"]
    assert law["kind"] == "shifted_gamma"
    assert law["skew"] == pytest.approx(1, abs=0.15)


def test_a_spread_beyond_the_models_is_said_in_the_reason() -> None:
    rng = np.random.default_rng(6)
    steps = np.exp(1.2 * rng.standard_normal((60, 1)))
    cells = 300 * steps * (1 + 0.02 * rng.standard_normal((60, 8)))
    values = {value.path: value for value in found_in(cells).proposal.values}
    common = values["variability.common"]
    assert common.value["cv"] == 1
    assert "the model takes 1 at most" in common.reason


@pytest.mark.parametrize(("phi", "said"), [(0.0, False), (0.95, True)])
def test_steps_that_are_all_alike_are_few(phi: float, *, said: bool) -> None:
    found = fit(table_of(Kind(40, 16, phi=phi), 3).timings, CalibrationOptions())
    assert ("few_independent_steps" in codes(found)) == said


def test_common_steps_that_are_all_alike_are_few() -> None:
    rng = np.random.default_rng(7)
    common = np.zeros(100)
    for step in range(1, 100):
        common[step] = 0.95 * common[step - 1] + 0.003 * rng.standard_normal()
    cells = factors_of((100, 8), rank=0.03, step=0, rest=0.01) * (1 + common[:, np.newaxis])
    (remark,) = (one for one in found_in(cells).warnings if one.code == "few_independent_steps")
    assert remark.detail.startswith("what all share")


def test_nodes_that_differ_tell_ranks_apart() -> None:
    rng = np.random.default_rng(8)
    nodes = np.arange(32) // 4
    even = factors_of((60, 32), rank=0, step=0.001, rest=0.0005)
    assert codes(found_in(even, nodes=nodes)) == ["ranks_nearly_equal"]
    even *= (1 + 0.008 * rng.standard_normal(8))[nodes]
    assert codes(found_in(even, nodes=nodes)) == []


def test_stages_that_differ_tell_ranks_apart() -> None:
    cells = factors_of((60, 8), rank=0, step=0.001, rest=0.001)
    stages = np.arange(8) // 4
    assert codes(found_in(cells, stages=stages)) == ["ranks_nearly_equal"]
    cells[:, 4:] *= 1.3
    assert codes(found_in(cells, stages=stages)) == []
