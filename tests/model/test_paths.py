import pytest

from service.model.columns import COUNT, PLACEMENT, SPEED
from service.model.fields import Scenario
from service.model.leaves import leaves
from service.model.paths import (
    group_of,
    is_whole,
    leaf_type,
    moves_the_barrier,
    moves_the_step,
    position_of,
    touched,
)

SPIKES = "variability.spikes"
CASES = [
    # path, columns, whole number, numeric leaf
    ("num_gpus", ("num_gpus",), True, True),
    ("load_ms", ("load_ms",), False, True),
    ("compute_ms", ("compute_ms",), False, True),
    ("communication.kind", ("communication.kind",), False, False),
    (
        "overlap",
        (
            "overlap.kind",
            "overlap.load_prefetch",
            "overlap.num_buckets",
            "overlap.bucket_bytes",
            "overlap.bucket_shares",
            "overlap.contention_fraction",
            "overlap.num_layers",
            "overlap.prefetch_layers",
        ),
        False,
        False,
    ),
    ("communication.link.flows", ("communication.link.flows",), True, True),
    ("communication.allreduce_ms", ("communication.allreduce_ms",), False, True),
    ("pipeline.forward_ms", ("pipeline.forward_ms",), False, True),
    ("pipeline.stage_weights", ("pipeline.stage_weights",), False, False),
    ("slow_groups", (COUNT, SPEED, PLACEMENT), False, False),
    ("slow_groups.0", (COUNT, SPEED, PLACEMENT), False, False),
    ("slow_groups.3.count", (COUNT,), True, True),
    ("slow_groups.15.speed_fraction", (SPEED,), False, True),
    ("variability.transient.kind", ("variability.transient.kind",), False, False),
    ("variability.transient.cv", ("variability.transient.cv",), False, True),
    ("variability.spikes", (f"{SPIKES}.probability", f"{SPIKES}.slowdown"), False, False),
    ("scaling", ("scaling.kind", "scaling.reference_num_gpus"), False, False),
    ("scaling.reference_num_gpus", ("scaling.reference_num_gpus",), True, True),
    ("synchronization.kind", ("synchronization.kind",), False, False),
    ("total_steps", ("total_steps",), True, True),
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
        "scaling.kind",
        "slow_groups.count",
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


def test_a_whole_source_sets_all_its_columns() -> None:
    above = "variability.transient"
    columns = touched(above)
    assert columns is not None
    assert {f"{above}.kind", f"{above}.cv"} <= set(columns)
    assert set(columns) == {name for name in leaves() if name.startswith(f"{above}.")}
    everything = touched("variability")
    assert everything is not None
    assert set(columns) < set(everything)


def test_times_beside_the_barrier_do_not_move_the_slowest_factor() -> None:
    tops = {name.split(".")[0] for name in leaves() if not moves_the_barrier(name)}
    beyond = {"period_days", "total_steps"}
    times = {"load_ms", "compute_ms", "communication", "scaling", "failures"}
    assert tops == times | beyond
    assert {name.split(".")[0] for name in leaves() if not moves_the_step(name)} == beyond


def test_leaf_types_are_those_of_the_fields() -> None:
    assert leaf_type("num_gpus") is Scenario.__annotations__["num_gpus"]
