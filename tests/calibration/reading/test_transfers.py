from typing import Any

import numpy as np
import pytest

from tests.calibration.reading.operation_tables import Row, operation, passes, table
from tests.calibration.reading.small_files import fault, read


def collective(step: int, rank: int, optype: str, duration: float, **more: object) -> Row:
    return operation(step, rank, optype, 5.0, duration, **more)


def test_the_last_rank_of_a_group_tells_the_transfer() -> None:
    """Stages 0 and 1 of two replicas; what lasts longer than the shortest is waiting."""
    rows: list[Row] = []
    for step in range(2):
        for rank, (stage, replica) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
            place: dict[str, Any] = {"stage": stage, "dp_rank": replica}
            rows += passes(step, rank, [0.5], **place)
            wait = 0.25 * (replica ^ step)
            rows.append(
                collective(step, rank, "grads-reduce-scatter", 0.0625 * (1 + stage) + wait, **place)
            )
            rows.append(collective(step, rank, "params-all-gather", 0.03125 + 2 * wait, **place))
            rows.append(collective(step, rank, "forward-send", 9.0, **place))
    timings = read(table(rows))
    assert timings.communication_ms is not None
    assert timings.communication_ms.tolist() == [[93.75, 93.75, 156.25, 156.25]] * 2
    assert [remark.code for remark in timings.warnings] == ["wait_removed"]


def test_collectives_of_one_step_are_matched_by_their_number() -> None:
    rows: list[Row] = []
    for rank, durations in enumerate([(0.125, 1.0), (2.0, 0.25)]):
        rows += passes(0, rank, [0.5])
        rows += [
            collective(0, rank, "grads-all_reduce", duration, seq_id=number)
            for number, duration in enumerate(durations)
        ]
    found = read(table(rows)).communication_ms
    assert found is not None
    # The shortest of each, not of all: 0.125 + 0.25
    assert found.tolist() == [[375.0, 375.0]]


def test_an_embedding_is_shared_by_stages() -> None:
    rows: list[Row] = []
    for rank in range(3):
        rows += passes(0, rank, [0.5], stage=rank)
    rows += [
        collective(0, rank, "embedding-grads-all-reduce", duration, stage=rank)
        for rank, duration in ((0, 0.125), (2, 3.0))
    ]
    found = read(table(rows)).communication_ms
    assert found is not None
    assert found.tolist() == [[125.0, 0.0, 125.0]]


def test_a_rank_alone_in_its_group_tells_nothing() -> None:
    rows: list[Row] = []
    for step in range(2):
        for rank in range(2):
            rows += passes(step, rank, [0.5])
            rows += [collective(step, rank, "all-reduce", 0.25)] * (step == 0 or rank == 0)
    found = read(table(rows)).communication_ms
    np.testing.assert_array_equal(found, [[250, 250], [np.nan, np.nan]])
    alone = [row for row in rows if row["rank"] == 0]
    assert read(table(alone)).communication_ms is None


def test_a_step_without_the_rank_has_none() -> None:
    rows = [*passes(0, 0, [0.5]), *passes(0, 1, [0.5]), *passes(1, 0, [0.5])]
    rows += [collective(0, rank, "all-reduce", 0.25) for rank in range(2)]
    found = read(table(rows)).communication_ms
    np.testing.assert_array_equal(found, [[250, 250], [0, np.nan]])


@pytest.mark.parametrize("number", [-1, 65_536])
def test_a_number_within_the_step_that_cannot_be_is_refused(number: int) -> None:
    rows = [*passes(0, 0, [0.5]), collective(0, 0, "all-reduce", 0.25, seq_id=number)]
    found = fault(table(rows))
    assert found.code == "bad_value"
    assert found.detail.startswith("row 2: ")
    assert "from 0 to 65535" in found.detail


def test_too_many_names_or_stages_are_refused() -> None:
    rows = passes(0, 0, [0.5])
    rows += [collective(0, 0, f"all-reduce-{number}", 0.25) for number in range(257)]
    assert "256 names" in fault(table(rows)).detail
