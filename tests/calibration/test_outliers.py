import numpy as np
import pytest

from service.calibration.changes import changes_of
from service.calibration.kinds import kinds_apart
from service.calibration.outliers import apart_of, limit_of
from tests.calibration.compute_tables import factors_of, observed_of_matrix, trace


def table(num_ranks: int = 16, num_steps: int = 40, seed: int = 0) -> np.ndarray:
    return factors_of((num_steps, num_ranks), rank=0.01, step=0.02, rest=0.01, seed=seed)


def test_slow_and_fast_ranks_are_named() -> None:
    cells = table()
    cells[:, 3] /= 0.7
    cells[:, 9] *= 0.6
    found = {one.position: one for one in apart_of(observed_of_matrix(cells))}
    assert {position: one.kind for position, one in found.items()} == {3: "slow", 9: "fast"}
    assert found[3].ratio == pytest.approx(1 / 0.7, rel=0.04)


def test_an_even_cluster_has_none_however_even_it_is() -> None:
    # spread of 0.05 % with one rank 2 % above: forty standard deviations, and no matter
    cells = factors_of((40, 16), rank=0.0005, step=0.02, rest=0.0005)
    cells[:, 5] *= 1.02
    assert apart_of(observed_of_matrix(cells)) == []


@pytest.mark.parametrize("num_ranks", [5, 8, 32, 256])
def test_normal_ranks_stand_apart_in_about_one_table_of_a_hundred(num_ranks: int) -> None:
    rng = np.random.default_rng(num_ranks)
    tables = 150
    hits = 0
    for _ in range(tables):
        cells = 100 * (1 + 0.03 * rng.standard_normal(num_ranks)) * np.ones((10, 1))
        hits += len(apart_of(observed_of_matrix(cells))) > 0
    # 1 % by the deviations, and as much again by gaps: under 9 of 150 with 99.5 %
    assert hits < 9


def test_two_ranks_differ_by_a_gap_and_the_faster_kind_is_nominal() -> None:
    cells = table(2)
    cells[:, 0] *= 1.3
    (one,) = apart_of(observed_of_matrix(cells))
    assert (one.position, one.kind) == (0, "slow")
    assert apart_of(observed_of_matrix(table(3))) == []


def test_half_of_another_kind_are_the_slow_ones() -> None:
    cells = table()
    cells[:, 8:] *= 1.4
    assert [one.position for one in apart_of(observed_of_matrix(cells))] == list(range(8, 16))
    assert all(one.kind == "slow" for one in apart_of(observed_of_matrix(cells)))
    away, level = kinds_apart(np.array([1.0, 1.01, 0.99, 1.0, 1.3, 1.31, 1.9]))
    assert away.tolist() == [False] * 4 + [True] * 3
    assert level == 1.0


def test_the_public_traces() -> None:
    def named(name: str, *, with_stages: bool) -> list[int]:
        timings = trace(name, with_stages=with_stages)
        observed = observed_of_matrix(timings.compute_ms, steps=timings.steps)
        if timings.stages is not None:
            observed = observed_of_matrix(
                timings.compute_ms, steps=timings.steps, stages=timings.stages
            )
        return [one.position for one in apart_of(observed)]

    # a long last stage looks like slow ranks only to those who know no stages
    assert named("st", with_stages=False) == [6, 7]
    assert named("st", with_stages=True) == []
    assert named("ar", with_stages=True) == [0]
    assert named("ar", with_stages=False)[0] == 0


def test_a_stage_of_one_rank_is_compared_with_nobody() -> None:
    cells = table(9)
    cells[:, 8] *= 2
    stages = np.array([0] * 8 + [1])
    assert apart_of(observed_of_matrix(cells, stages=stages)) == []


def test_a_rank_that_was_slow_for_a_while_changed() -> None:
    cells = table(16, 120)
    cells[40:70, 4] *= 1.5
    cells[90:, 7] *= 1.2
    found = {one.position: one for one in apart_of(observed_of_matrix(cells))}
    assert {position: one.kind for position, one in found.items()} == {4: "changed", 7: "changed"}
    change = found[4].change
    assert change is not None
    assert (change.first, change.last) == (40, 69)
    assert change.ratio == pytest.approx(1.5, rel=0.03)
    later = found[7].change
    assert later is not None
    assert (later.first, later.last) == (90, 119)


def test_slow_for_more_than_half_of_the_time_is_a_change_too() -> None:
    cells = table(16, 120)
    cells[:90, 4] *= 1.5
    (one,) = apart_of(observed_of_matrix(cells))
    assert one.kind == "changed"
    assert one.change is not None
    assert (one.change.first, one.change.last) == (0, 89)


def test_slow_all_the_time_and_slower_for_a_while_is_slow() -> None:
    cells = table(16, 120)
    cells[:, 4] *= 1.5
    cells[40:80, 4] *= 1.4
    (one,) = apart_of(observed_of_matrix(cells))
    assert one.kind == "slow"


def test_single_slow_steps_are_no_change() -> None:
    cells = table(16, 120)
    for position in range(8):
        cells[15 * position, position] *= 3
    cells[10:12, 5] *= 2
    assert apart_of(observed_of_matrix(cells)) == []
    # All of them of one rank are that rank's
    cells[::15, 4] *= 3
    (one,) = apart_of(observed_of_matrix(cells))
    assert (one.position, one.kind) == (4, "changed")
    assert changes_of(cells[:10]) == []


def test_an_uneven_part_is_no_change() -> None:
    # slow in every second block: neither part of the steps is slow throughout
    cells = np.ones((144, 8)) + 0.001 * np.random.default_rng(0).standard_normal((144, 8))
    for block in range(0, 48, 2):
        cells[3 * block : 3 * block + 3, 2] += 0.5
    assert changes_of(cells) == []


def test_edges_are_found_inside_of_blocks() -> None:
    cells = np.ones((200, 6)) + 0.001 * np.random.default_rng(1).standard_normal((200, 6))
    cells[101:131, 1] += 0.3
    (change,) = changes_of(cells)
    assert (change.first, change.last) == (101, 130)


def test_limits_fall_with_the_number_of_ranks_and_rise_with_the_largest_of_many() -> None:
    assert limit_of(8) == pytest.approx(8.4)
    assert limit_of(5) > limit_of(8) > limit_of(64) > 4
    assert limit_of(100_000) == pytest.approx(4.7)
