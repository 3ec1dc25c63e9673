import numpy as np
import pytest

from service.calibration.findings import Findings
from service.calibration.fit import fit
from service.calibration.kinds import kinds_apart, kinds_of
from service.calibration.options import CalibrationOptions
from service.calibration.outliers import apart_of
from tests.calibration.compute_tables import factors_of, observed_of_matrix, timings_of

LEVELS = {"fast": 1.0, "middle": 1 / 0.9, "slow": 1 / 0.8}


def table(*counts_and_levels: tuple[int, float], rank: float = 0.005) -> np.ndarray:
    """60 steps of ranks of several kinds: so many of each level."""
    levels = np.concatenate([np.full(count, level) for count, level in counts_and_levels])
    return 3 * levels * factors_of((60, len(levels)), rank=rank, step=0.01, rest=0.02)


def remarks_of(cells: np.ndarray, **labels: np.ndarray) -> list[str]:
    found: Findings = fit(timings_of(cells, **labels), CalibrationOptions())
    return [one.detail for one in found.warnings if one.code == "kinds_of_ranks"]


def test_three_kinds_are_told_apart_and_the_fastest_is_nominal() -> None:
    cells = table((10, LEVELS["middle"]), (10, LEVELS["slow"]), (10, LEVELS["fast"]))
    found = fit(timings_of(cells), CalibrationOptions())
    groups = found.proposal.overrides["slow_groups"]
    assert [group["count"] for group in groups] == [10, 10]
    speeds = [group["speed_fraction"] for group in groups]
    assert speeds == pytest.approx([0.8, 0.9], rel=0.01)
    assert found.compute_ms.value == pytest.approx(cells[:, 20:].mean(), rel=1e-6)
    (remark,) = [one.detail for one in found.warnings if one.code == "kinds_of_ranks"]
    assert "of 3 kinds" in remark
    assert "as the fastest 10" in remark
    assert found.held_out is not None
    assert abs(found.held_out.relative_error) < 0.01


def test_a_fast_minority_of_a_quarter_is_nominal_and_a_smaller_one_is_not() -> None:
    many = apart_of(observed_of_matrix(table((20, 1 / 0.7), (12, 1.0))))
    assert {one.kind for one in many} == {"slow"}
    assert [one.position for one in many] == list(range(20))
    few = apart_of(observed_of_matrix(table((26, 1 / 0.7), (6, 1.0))))
    assert [(one.position, one.kind) for one in few] == [(place, "fast") for place in range(26, 32)]


def test_kinds_that_are_near_each_other_are_one_law_and_a_remark() -> None:
    cells = table((16, 1.08), (16, 1.0))
    assert apart_of(observed_of_matrix(cells)) == []
    (remark,) = remarks_of(cells)
    assert "of 2 kinds" in remark
    assert "16 take 1.08 times as long as the fastest 16" in remark


def test_one_law_is_one_kind() -> None:
    assert remarks_of(table((32, 1.0), rank=0.03)) == []
    rng = np.random.default_rng(5)
    for num_ranks in (5, 8, 12, 32, 256):
        drawn = [1 + 0.03 * rng.standard_normal(num_ranks) for _ in range(100)]
        large = [[kind for kind in kinds_of(middle) if len(kind) > 2] for middle in drawn]
        # 0.75 of a thousand (4 000 draws): more than 3 of 100 in one of a million
        assert sum(len(kinds) > 1 for kinds in large) <= 3


def test_kinds_that_are_nodes_are_the_spread_between_nodes() -> None:
    nodes = np.arange(32) // 8
    by_node = table((8, 1.0), (8, 1.07), (8, 1.15), (8, 1.23), rank=0.002)
    assert remarks_of(by_node, nodes=nodes) == []
    (remark,) = remarks_of(by_node)
    assert "of 4 kinds" in remark
    # Two nodes of each kind are kinds of nodes
    in_pairs = table((16, 1.0), (16, 1.08))
    assert len(remarks_of(in_pairs, nodes=nodes)) == 1
    # A kind that splits a node is no node
    assert len(remarks_of(table((12, 1.0), (20, 1.08)), nodes=nodes)) == 1


def test_nodes_stand_apart_by_the_gap_between_their_ranks() -> None:
    middle = np.repeat([1.0, 1.11], 8) * (1 + np.tile(np.linspace(-0.006, 0.006, 8), 2))
    assert np.log(1.11) > np.log1p(0.1) > np.log(middle[8] / middle[7])
    away, level = kinds_apart(middle)
    assert away.tolist() == [False] * 8 + [True] * 8
    assert level == pytest.approx(1.0)
    away, _ = kinds_apart(middle, np.arange(16) // 8)
    assert not away.any()
    away, _ = kinds_apart(middle, np.arange(16) % 2)
    assert away.sum() == 8


def test_kinds_of_a_stage_are_those_of_its_ranks() -> None:
    stages = np.repeat([0, 1], 16)
    cells = table((8, 1.0), (8, 1.08), (16, 2.0))
    (remark,) = remarks_of(cells, stages=stages)
    assert remark.startswith("ranks of stage 0 are of 2 kinds")
    few = np.array([0] * 16 + [1] * 14 + [2] * 2)
    assert len(remarks_of(cells, stages=few)) == 1
