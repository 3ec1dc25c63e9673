import pytest

from service.model.fields import Scenario
from service.model.paths import (
    BARRIER_COLUMNS,
    group_of,
    is_whole,
    leaf_type,
    position_of,
    touched,
)

CASES = [
    # path, columns, whole number, numeric leaf
    ("num_gpus", ("num_gpus",), True, True),
    ("load_ms", ("load_ms",), False, True),
    ("compute_ms", ("compute_ms",), False, True),
    ("communication", ("allreduce_ms",), False, False),
    ("communication.allreduce_ms", ("allreduce_ms",), False, True),
    ("slow_groups", ("slow_count", "slow_speed"), False, False),
    ("slow_groups.0", ("slow_count", "slow_speed"), False, False),
    ("slow_groups.3.count", ("slow_count",), True, True),
    ("slow_groups.15.speed_fraction", ("slow_speed",), False, True),
    ("variability", ("transient_family", "transient_cv"), False, False),
    ("variability.transient", ("transient_family", "transient_cv"), False, False),
    ("variability.transient.kind", ("transient_family",), False, False),
    ("variability.transient.cv", ("transient_cv",), False, True),
]


@pytest.mark.parametrize(("path", "columns", "whole", "leaf"), CASES)
def test_a_path_sets_its_columns(
    path: str, columns: tuple[str, ...], *, whole: bool, leaf: bool
) -> None:
    assert touched(path) == columns
    assert is_whole(path) is whole
    assert (leaf_type(path) is not None) is leaf


@pytest.mark.parametrize(
    "path",
    [
        "",
        "x",
        "num_gpus.x",
        "communication.kind",
        "variability.transient.cv.x",
        "slow_groups.",
        "slow_groups.x",
        "slow_groups.-1.count",
        "slow_groups.00.count",
        "slow_groups.0.x",
        "slow_groups.0.count.x",
        "slow_groups.\u0663.count",
        "slow_groups.1000000000.count",
    ],
)
def test_other_paths_set_nothing(path: str) -> None:
    assert touched(path) is None
    assert leaf_type(path) is None


def test_groups_are_found_by_position() -> None:
    assert [
        group_of(path) for path in ("slow_groups.12.count", "slow_groups.0", "slow_groups")
    ] == [
        12,
        0,
        None,
    ]
    assert group_of("groups.0") is None
    assert [position_of(part) for part in ("0", "7", "10", "01", "", "+1", "1 ", "²")] == [
        0,
        7,
        10,
        *[None] * 5,
    ]


def test_every_column_but_times_outside_compute_decides_the_slowest_factor() -> None:
    every = {column for _, columns, _, _ in CASES for column in columns}
    assert every - BARRIER_COLUMNS == {"load_ms", "compute_ms", "allreduce_ms"}


def test_leaf_types_are_those_of_the_fields() -> None:
    assert leaf_type("num_gpus") is Scenario.__annotations__["num_gpus"]
