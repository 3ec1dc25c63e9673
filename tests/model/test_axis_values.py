import math
from typing import Any

import numpy as np
import pytest

from service.model.axes import decode_axes
from service.model.axis_values import MAX_FAULTS, MAX_STRUCTURES, AxisValues, read_values
from service.model.columns import COUNT, PLACEMENT, SPEED
from service.model.distributions import FAMILIES
from service.model.leaves import leaves
from service.model.problems import Problem
from service.model.scenario import decode_scenario, full

DOCUMENT = full(
    decode_scenario(
        {
            "num_gpus": 64,
            "compute_ms": 300,
            "slow_groups": [
                {"count": 1, "speed_fraction": 0.7},
                {"count": 2, "speed_fraction": 0.8},
            ],
            "variability": {"transient": {"kind": "normal", "cv": 0.05}},
        }
    )
)
FIXED = {"kind": "fixed", "allreduce_ms": 5}
NORMAL = {"kind": "normal", "cv": 0.1}


def read(
    path: str, *, zipped: bool = False, document: dict[str, Any] = DOCUMENT, **form: Any
) -> tuple[AxisValues, list[Problem], list[Problem]]:
    (axis,) = decode_axes([{"path": path, **form}])
    return read_values(axis, document, pointer="/axes/0", zipped=zipped)


def columns(path: str, **form: Any) -> dict[str, list[Any]]:
    values, problems, warnings = read(path, **form)
    assert (problems, warnings) == ([], [])
    assert values.path == path
    for column in values.columns.values():
        assert len(column) == values.length
    return {name: column.tolist() for name, column in values.columns.items()}


def with_fields(**fields: Any) -> dict[str, Any]:
    return full(decode_scenario({**DOCUMENT, **fields}))


def faults(path: str, **form: Any) -> list[tuple[str, str]]:
    values, problems, _ = read(path, **form)
    assert values.columns == {}
    return [(problem.pointer, problem.code) for problem in problems]


def test_axes_of_numbers_set_one_column() -> None:
    assert columns("num_gpus", values=[8, 64.0]) == {"num_gpus": [8, 64]}
    assert columns("load_ms", range={"start": 0, "stop": 20, "step": 10}) == {
        "load_ms": [0.0, 10.0, 20.0]
    }
    assert columns("communication.allreduce_ms", values=[1]) == {
        "communication.allreduce_ms": [1.0]
    }
    assert columns("slow_groups.1.count", powers_of_two={"start": 1, "stop": 4}) == {
        COUNT: [1, 2, 4]
    }
    assert columns("slow_groups.0.speed_fraction", values=[1, 0.5]) == {SPEED: [1.0, 0.5]}
    assert columns("variability.transient.cv", values=[0, 1]) == {
        "variability.transient.cv": [0.0, 1.0]
    }


def test_whole_numbers_stay_whole() -> None:
    values, _, _ = read("num_gpus", values=[8])
    assert values.columns["num_gpus"].dtype == np.int64
    assert repr(values.value_at(0)) == "8"
    assert repr(read("load_ms", values=[8])[0].value_at(0)) == "8.0"


def test_whole_numbers_are_rounded_half_to_even_and_duplicates_removed_with_a_warning() -> None:
    values, problems, warnings = read("num_gpus", values=[1.5, 2.5, 2, 3.5, 5])
    assert values.columns["num_gpus"].tolist() == [2, 4, 5]
    assert problems == []
    assert warnings == [
        Problem(
            pointer="/axes/0",
            code="duplicates_removed",
            detail="2 of 5 values of num_gpus were met before",
        )
    ]
    logspace, _, notes = read("num_gpus", logspace={"start": 1, "stop": 4, "num": 7})
    assert logspace.columns["num_gpus"].tolist() == [1, 2, 3, 4]
    assert notes[0].detail == "3 of 7 values of num_gpus were met before"


def test_values_of_a_zip_are_kept_though_met_before() -> None:
    values, _, warnings = read("num_gpus", values=[8, 8.4, 16], zipped=True)
    assert values.columns["num_gpus"].tolist() == [8, 8, 16]
    assert warnings == []


def test_whole_structures_set_all_their_columns() -> None:
    ring = {"kind": "ring", "message_bytes": 7, "link": {"latency_us": 3}}
    both = columns("communication", values=[FIXED, ring])
    assert both["communication.kind"] == [1, 2]
    assert repr(both["communication.allreduce_ms"]) == "[5.0, nan]"
    assert repr(both["communication.link.latency_us"]) == "[nan, 3.0]"
    assert repr(both["communication.compression_ratio"]) == "[nan, 1.0]"
    sources = [None, NORMAL, {"kind": "gamma", "cv": 1}]
    found = columns("variability.transient", values=sources)
    kinds = [0, FAMILIES.index("normal"), FAMILIES.index("gamma")]
    assert found["variability.transient.kind"] == kinds
    assert repr(found["variability.transient.cv"]) == "[nan, 0.1, 1.0]"
    whole = columns("variability", values=[{}, {"transient": NORMAL, "autocorrelation": 0.5}])
    assert whole["variability.transient.kind"] == kinds[:2]
    assert repr(whole["variability.transient.cv"]) == "[nan, 0.1]"
    assert whole["variability.autocorrelation"] == [0, 0.5]
    assert whole["variability.persistent.kind"] == [0, 0]
    assert columns("variability.transient.kind", values=["lognormal", "normal"]) == {
        "variability.transient.kind": [FAMILIES.index("lognormal"), FAMILIES.index("normal")]
    }
    assert columns("slow_groups.1", values=[{"count": 7, "speed_fraction": 0.6}]) == {
        COUNT: [7],
        SPEED: [0.6],
        PLACEMENT: [-1],
    }
    placed = [{"count": 7, "speed_fraction": 0.6, "placement": where} for where in ("worst", 3)]
    assert columns("slow_groups.1", values=placed)[PLACEMENT] == [-2, 3]


def test_another_kind_brings_its_own_defaults() -> None:
    ring = {"kind": "ring", "message_bytes": 1e6, "link": {"bandwidth_gigabytes_per_s": 2}}
    found = columns(
        "communication.kind",
        document=with_fields(communication=ring),
        values=["ring", "auto", "tree"],
    )
    kinds = leaves()["communication.kind"].labels
    assert [kinds[code - 1] for code in found["communication.kind"]] == ["ring", "auto", "tree"]
    assert repr(found.pop("communication.tree_efficiency_fraction")) == "[nan, 1.0, 1.0]"
    # What all have in common is left to axes of its own.
    assert list(found) == ["communication.kind"]
    found = columns("synchronization.kind", values=["every_step", "delayed_update"])
    assert repr(found["synchronization.delay_ms"]) == "[nan, 0.0]"
    assert repr(found["synchronization.extra_steps_fraction"]) == "[nan, 0.0]"
    back = with_fields(communication={**ring, "kind": "auto"})
    found = columns("communication.kind", document=back, values=["ring", "auto"])
    assert repr(found["communication.tree_efficiency_fraction"]) == "[nan, 1.0]"


def test_what_another_kind_needs_and_does_not_know_is_said() -> None:
    assert faults("synchronization.kind", values=["every_step", "local_steps"]) == [
        ("/axes/0/values/1", "missing_field")
    ]
    assert faults("variability.transient.kind", values=["shifted_gamma"]) == [
        ("/axes/0/values/0", "missing_field")
    ]
    stale = with_fields(synchronization={"kind": "bounded_staleness", "staleness": 2})
    assert faults("synchronization.kind", document=stale, values=["delayed_update"]) == [
        ("/axes/0/values/0", "unknown_field")
    ]


def test_lists_of_groups_are_padded_with_absent_ones() -> None:
    values = [[], [{"count": 1, "speed_fraction": 0.5}], DOCUMENT["slow_groups"]]
    assert columns("slow_groups", values=values) == {
        COUNT: [[0, 0], [1, 0], [1, 2]],
        SPEED: [[1.0, 1.0], [0.5, 1.0], [0.7, 0.8]],
        PLACEMENT: [[-1, -1]] * 3,
    }
    placed = [[{"count": 1, "speed_fraction": 0.5, "placement": 0}], DOCUMENT["slow_groups"]]
    assert columns("slow_groups", values=placed)[PLACEMENT] == [[0, -1], [-1, -1]]
    read_axis = read("slow_groups", values=values)[0]
    assert read_axis.num_groups == 2
    assert read("num_gpus", values=[1])[0].num_groups == 0
    assert read_axis.value_at(1) == values[1]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("seed", "refused_axis"),
        ("draws", "refused_axis"),
        ("period_days", "refused_axis"),
        ("seed.x", "refused_axis"),
        ("x", "unknown_path"),
        ("slow_groups.2.count", "unknown_path"),
        ("slow_groups.2", "unknown_path"),
        ("slow_groups.00.count", "unknown_path"),
        ("slow_groups.0.x", "unknown_path"),
    ],
)
def test_a_path_that_cannot_be_an_axis_is_refused(path: str, code: str) -> None:
    assert faults(path, values=[1]) == [("/axes/0/path", code)]


def test_a_path_under_null_is_refused() -> None:
    document = {**DOCUMENT, "variability": {"transient": None}}
    for path in ("variability.transient.cv", "variability.transient.kind"):
        assert faults(path, values=[0.1], document=document) == [
            ("/axes/0/path", "path_under_null")
        ]
    assert read("variability.transient", values=[NORMAL], document=document)[1] == []
    for path in ("failures.restart_s", "variability.spikes.slowdown"):
        assert faults(path, values=[1]) == [("/axes/0/path", "path_under_null")]


def test_a_path_that_another_kind_would_have_is_refused() -> None:
    assert faults("synchronization.count", values=[1]) == [("/axes/0/path", "unknown_path")]
    assert faults("scaling.reference_num_gpus", values=[1]) == [("/axes/0/path", "unknown_path")]
    backup = {**DOCUMENT, "synchronization": {"kind": "backup_workers", "count": 2}}
    values, problems, _ = read("synchronization.count", values=[3.0, 4], document=backup)
    assert problems == []
    assert values.columns["synchronization.count"].dtype == np.float64
    assert repr(values.value_at(0)) == "3"


def test_words_and_numbers_on_one_axis() -> None:
    failing = {"failures": {"mtbf_hours_per_gpu": 1e5}}
    document = full(decode_scenario({"num_gpus": 8, "compute_ms": 1, **failing}))
    path = "failures.checkpoint_interval_s"
    values, problems, _ = read(path, values=["optimal", 600], document=document)
    assert problems == []
    # The word is a 0, which is none of the field's numbers.
    assert values.columns[path].tolist() == [0, 600]
    assert [values.value_at(place) for place in (0, 1)] == ["optimal", 600]
    assert values.positions_of("optimal") == {0}


def test_switches_and_bare_words_are_listed() -> None:
    failing = {"failures": {"mtbf_hours_per_gpu": 1e5}}
    document = full(decode_scenario({"num_gpus": 8, "compute_ms": 1, **failing}))
    path = "failures.asynchronous_checkpoint"
    assert read(path, values=[False, True], document=document)[0].columns[path].tolist() == [1, 2]
    strong = {"kind": "strong", "reference_num_gpus": 8}
    found = columns("scaling", values=["weak", strong])
    assert found["scaling.kind"] == [1, 2]
    assert repr(found["scaling.reference_num_gpus"]) == "[nan, 8.0]"


@pytest.mark.parametrize(
    "form",
    [
        {"range": {"start": 1, "stop": 2, "step": 1}},
        {"logspace": {"start": 1, "stop": 2, "num": 2}},
        {"powers_of_two": {"start": 1, "stop": 2}},
    ],
)
@pytest.mark.parametrize(
    "path", ["communication", "slow_groups", "slow_groups.0", "variability.transient.kind"]
)
def test_only_numbers_can_be_generated(path: str, form: dict[str, Any]) -> None:
    assert faults(path, **form) == [("/axes/0", "not_numeric")]


@pytest.mark.parametrize(
    ("path", "values", "expected"),
    [
        ("num_gpus", [8, "16", True, None, [1]], {1, 2, 3, 4}),
        ("variability.transient.cv", [0.1, None], {1}),
        ("load_ms", ["1", {}, 3], {0, 1}),
    ],
)
def test_values_of_a_wrong_type_are_each_named(
    path: str, values: list[Any], expected: set[int]
) -> None:
    assert set(faults(path, values=values)) == {
        (f"/axes/0/values/{position}", "wrong_type") for position in expected
    }


@pytest.mark.parametrize(
    ("path", "values", "expected"),
    [
        ("num_gpus", [8, 0, 10**7, 10**7 + 1, -1, 10**30, 0.5], {1, 3, 4, 5, 6}),
        ("load_ms", [-1, 0, 1e12, 1.1e12], {0, 3}),
        ("compute_ms", [1, 0], {1}),
        ("slow_groups.0.count", [1, 0], {1}),
        ("slow_groups.0.speed_fraction", [0, 0.5, 1.5], {0, 2}),
        ("variability.transient.cv", [-0.1, 1.1, 0.31], {0, 1}),
        ("load_ms", [10**400, 1], {0}),
    ],
)
def test_values_out_of_range_are_each_named(
    path: str, values: list[Any], expected: set[int]
) -> None:
    assert set(faults(path, values=values)) == {
        (f"/axes/0/values/{position}", "out_of_range") for position in expected
    }


def test_generated_values_out_of_range_are_named_by_their_form() -> None:
    _, problems, _ = read("num_gpus", range={"start": 0, "stop": 8, "step": 4})
    assert problems == [
        Problem(
            pointer="/axes/0/range",
            code="out_of_range",
            detail="0 is refused: expected int >= 1",
        )
    ]
    assert faults("num_gpus", powers_of_two={"start": 1, "stop": 2e7}) == [
        ("/axes/0/powers_of_two", "out_of_range")
    ]
    assert faults("load_ms", logspace={"start": 1, "stop": 1e300, "num": 3}) == [
        ("/axes/0/logspace", "out_of_range")
    ]


@pytest.mark.parametrize("path", ["num_gpus", "load_ms"])
def test_numbers_are_finite(path: str) -> None:
    assert faults(path, values=[1, math.nan, math.inf, 2, -math.inf]) == [
        (f"/axes/0/values/{position}", "not_finite") for position in (1, 2, 4)
    ]


def test_no_more_faults_are_named_than_can_be_read() -> None:
    for path, bad in (("load_ms", "x"), ("load_ms", -1), ("load_ms", math.nan), ("slow_groups", 1)):
        assert len(faults(path, values=[bad] * 1000)) == MAX_FAULTS


def test_faults_inside_a_structure_are_named_where_they_stand() -> None:
    assert faults(
        "slow_groups",
        values=[[{"count": 1}], [], [{"count": 0, "speed_fraction": 2}], None],
    ) == [
        ("/axes/0/values/0/0/speed_fraction", "missing_field"),
        ("/axes/0/values/2/0/count", "out_of_range"),
        ("/axes/0/values/2/0/speed_fraction", "out_of_range"),
        ("/axes/0/values/3", "wrong_type"),
    ]
    assert faults("slow_groups.1", values=[{"count": 1, "speed_fraction": 1, "x/y": 1}, None]) == [
        ("/axes/0/values/0/x~1y", "unknown_field"),
        ("/axes/0/values/1", "wrong_type"),
    ]
    assert faults("variability.transient", values=[{"kind": "cauchy"}, {"kind": "normal"}]) == [
        ("/axes/0/values/0/kind", "not_one_of"),
        ("/axes/0/values/1/cv", "missing_field"),
    ]
    assert faults("variability.transient.kind", values=["normal", "cauchy", 3]) == [
        ("/axes/0/values/1", "not_one_of"),
        ("/axes/0/values/2", "not_one_of"),
    ]
    assert faults("communication", values=[{"kind": "fixed", "allreduce_ms": -1}, 5]) == [
        ("/axes/0/values/0/allreduce_ms", "out_of_range"),
        ("/axes/0/values/1", "wrong_type"),
    ]


def test_a_number_is_found_whatever_way_it_is_written() -> None:
    sizes = read("num_gpus", values=[8, 16, 8], zipped=True)[0]
    assert sizes.positions_of(8) == {0, 2}
    assert sizes.positions_of(16.0) == {1}
    for value in (9, True, "8", None, [8], math.nan, math.inf, 10**400, -(10**400)):
        assert sizes.positions_of(value) == set()
    times = read("load_ms", values=[1e12, 0, 1])[0]
    assert times.positions_of(10**12) == {0}
    assert times.positions_of(0) == {1}
    assert times.positions_of(True) == set()
    assert times.positions_of(10**400) == set()


def test_a_structure_is_found_by_its_json() -> None:
    listed = [None, NORMAL, {"kind": "normal", "cv": 1}]
    axis = read("variability.transient", values=listed)[0]
    assert axis.positions_of(None) == {0}
    assert axis.positions_of({"cv": 0.1, "kind": "normal"}) == {1}
    assert axis.positions_of({"cv": 1.0, "kind": "normal"}) == {2}
    assert axis.positions_of({"cv": True, "kind": "normal"}) == set()
    assert axis.positions_of({"kind": "normal"}) == set()
    groups = read("slow_groups", values=[[], DOCUMENT["slow_groups"]])[0]
    assert groups.positions_of([]) == {0}
    assert groups.positions_of(DOCUMENT["slow_groups"]) == {1}
    assert groups.positions_of(DOCUMENT["slow_groups"][:1]) == set()
    assert groups.positions_of({}) == set()


def test_whole_structures_are_limited_since_each_is_decoded_by_itself() -> None:
    _, (problem,), _ = read("slow_groups", values=[[]] * (MAX_STRUCTURES + 1))
    assert problem == Problem(
        pointer="/axes/0/values",
        code="too_many_values",
        detail="10001 whole structures on an axis, but 10000 is the limit",
    )
    many = read("load_ms", values=[0.0] * (MAX_STRUCTURES + 1), zipped=True)[0]
    assert many.length == MAX_STRUCTURES + 1


def test_numbers_inside_of_documents_may_be_null_where_the_field_may() -> None:
    link = {"bandwidth_gigabytes_per_s": 1, "round_trip_ms": 50, "window_bytes": 1e6}
    ring = {"kind": "ring", "message_bytes": 1e6, "link": link}
    document = full(decode_scenario({"num_gpus": 8, "compute_ms": 1, "communication": ring}))

    path = "communication.link.window_bytes"
    values, problems, _ = read(path, document=document, values=[None, 2e6])
    assert problems == []
    assert repr(values.columns[path].tolist()) == "[nan, 2000000.0]"
    assert [values.value_at(place) for place in range(2)] == [None, 2e6]
    ratio = "communication.compression_ratio"
    _, (fault,), _ = read(ratio, document=document, values=[None])
    assert fault.pointer == "/axes/0/values/0"
    inside = "communication.intra_link.latency_us"
    _, (fault,), _ = read(inside, document=document, values=[1])
    assert (fault.code, fault.pointer) == ("unknown_path", "/axes/0/path")
    assert "ring has no intra_link" in fault.detail
