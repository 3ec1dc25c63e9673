"""Leaves are found in the declarations; every scenario comes back from its columns."""

import math
from typing import Any

import msgspec
import pytest

from service.model.columns import columns_of
from service.model.distributions import FAMILIES
from service.model.fields import Scenario
from service.model.leaves import label_code, leaves, members, tags_of, words_of
from service.model.scenario import decode_scenario, full

WHOLE: dict[str, Any] = {
    "num_gpus": 64,
    "compute_ms": 300.0,
    "slow_groups": [
        {"count": 1, "speed_fraction": 0.7, "placement": "worst"},
        {"count": 2, "speed_fraction": 0.8, "placement": 3},
        {"count": 3, "speed_fraction": 0.9, "placement": "random"},
    ],
    "variability": {
        "transient": {"kind": "shifted_gamma", "cv": 0.1, "skew": 1.5},
        "common": {"kind": "empirical", "quantiles": [1.0, 2.0], "allow_extrapolation": True},
        "spikes": {"probability": 0.001, "slowdown": 2.0},
    },
    "scaling": {"kind": "strong", "reference_num_gpus": 32},
    "synchronization": {"kind": "backup_workers", "count": 2},
    "failures": {"mtbf_hours_per_gpu": 1e5, "checkpoint_interval_s": "optimal"},
    "total_steps": 1000,
    "pipeline": {
        "schedule": "interleaved_1f1b",
        "stages": 4,
        "microbatches": 16,
        "chunks_per_stage": 2,
        "stage_weights": [1.0, 2.0, 2.0, 1.0],
        "backward_weight_fraction": 0.4,
        "p2p_ms": 0.1,
        "per_op_jitter": {"kind": "gamma", "cv": 0.02},
    },
}
PLACES = {"random": -1, "worst": -2}


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("num_gpus", ("int64", 0)),
        ("gpus_per_node", ("int64", 8)),
        ("load_ms", ("float64", 0.0)),
        ("backward_fraction", ("float64", 2 / 3)),
        ("variability.autocorrelation", ("float64", 0.0)),
        ("slow_groups.count", ("int64", 0)),
        ("slow_groups.speed_fraction", ("float64", 1.0)),
        ("scaling.kind", ("int64", 1)),
        ("synchronization.kind", ("int64", 1)),
        ("variability.node.kind", ("int64", 0)),
        ("failures.asynchronous_checkpoint", ("int64", 0)),
        ("variability.common.quantiles", ("object", None)),
        ("draws", ("int64", 1000)),
    ],
)
def test_what_a_scenario_leaves_out(path: str, wanted: tuple[str, Any]) -> None:
    leaf = leaves()[path]
    assert (leaf.dtype, leaf.absent) == wanted
    smallest = columns_of(decode_scenario({"num_gpus": 1, "compute_ms": 1}))
    if leaf.in_list:
        assert smallest[path].shape == (1, 0)
    elif path not in {"num_gpus", "compute_ms"}:
        assert smallest[path].tolist() == [wanted[1]]


@pytest.mark.parametrize(
    "path",
    ["variability.node.cv", "scaling.reference_num_gpus", "total_steps", "failures.restart_s"],
)
def test_numbers_that_may_be_absent_are_nan(path: str) -> None:
    leaf = leaves()[path]
    assert leaf.dtype == "float64"
    assert math.isnan(leaf.absent)
    assert leaf.is_number


def test_labels_count_from_one_in_the_order_of_the_declaration() -> None:
    found = leaves()
    for source in ("transient", "persistent", "node", "replica", "common"):
        leaf = found[f"variability.{source}.kind"]
        # So the codes of families are positions in FAMILIES, where 0 is none.
        assert ("none", *leaf.labels) == FAMILIES
        assert not leaf.is_number
    assert found["scaling.kind"].labels == ("weak", "strong")
    assert not found["scaling.kind"].can_be_set
    assert found["synchronization.kind"].can_be_set
    assert found["failures.checkpoint_interval_s"].words == ("optimal",)
    assert found["communication.kind"].labels[:3] == ("fixed", "ring", "tree")
    assert (
        found["communication.link.preset"].labels == found["communication.intra_link.preset"].labels
    )
    assert found["variability.common.allow_extrapolation"].labels == ("false", "true")


def test_every_number_of_a_scenario_is_in_its_columns() -> None:
    columns = columns_of(decode_scenario(WHOLE))
    flat = dict(_flat(WHOLE, ""))
    for path, value in flat.items():
        leaf = leaves()[path]
        given = columns[path][0]
        if leaf.in_list:
            assert given.tolist() == [PLACES.get(one, one) for one in value], path
        elif leaf.labels:
            assert given == label_code(leaf.labels, value), path
        elif value == "optimal":
            assert given == 0
        elif leaf.dtype == "object":
            assert given == tuple(value)
        else:
            assert given == value, path
    # What is there by default has columns of its own.
    assert columns["communication.allreduce_ms"] == 0
    untouched = set(leaves()) - set(flat) - {"communication.allreduce_ms"}
    for path in untouched - {"failures.asynchronous_checkpoint"}:
        leaf = leaves()[path]
        whole = full(decode_scenario(WHOLE))
        if path.startswith("failures."):
            assert columns[path][0] == whole["failures"][path.split(".")[1]] or math.isnan(
                columns[path][0]
            )
        else:
            assert (
                columns[path][0] is leaf.absent
                or columns[path][0] == leaf.absent
                or math.isnan(columns[path][0])
            )


def _flat(value: dict[str, Any], above: str) -> Any:
    for name, part in value.items():
        path = f"{above}{name}"
        if isinstance(part, dict):
            yield from _flat(part, f"{path}.")
        elif isinstance(part, list) and isinstance(part[0], dict):
            for inner in part[0]:
                yield f"{path}.{inner}", [one[inner] for one in part]
        else:
            yield path, part


def test_types_are_taken_apart() -> None:
    types = {field.name: field.type for field in msgspec.structs.fields(Scenario)}
    scaling = members(types["scaling"])
    assert words_of(scaling) == ("weak",)
    assert tags_of(scaling) == ("weak", "strong")
    assert members(types["total_steps"])[0] is int
    assert label_code(("weak", "strong"), None) == 0
    assert label_code(("false", "true"), True) == 2
