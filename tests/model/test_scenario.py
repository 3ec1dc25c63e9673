import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.model.distributions import Normal
from service.model.draws import draw_ranks
from service.model.fields import MAX_SEED, MIN_SPEED
from service.model.parts.bounds import MIN_COMPUTE_MS
from service.model.problems import InvalidScenario, Problem
from service.model.scenario import (
    Fixed,
    Scenario,
    SlowGroup,
    Variability,
    apply_overrides,
    decode_fields,
    decode_scenario,
    full,
    normalised,
)

BACKWARD = 2 / 3
SMALLEST = {"num_gpus": 8, "compute_ms": 300}
WHOLE: dict[str, Any] = {
    "num_gpus": 64,
    "compute_ms": 300.0,
    "load_ms": 30.0,
    "communication": {"kind": "fixed", "allreduce_ms": 80.0},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7, "placement": 3}],
    "variability": {
        "transient": {"kind": "normal", "cv": 0.05},
        "persistent": {"kind": "lognormal", "cv": 0.04},
        "node": {"kind": "gamma", "cv": 0.03},
        "replica": {"kind": "normal", "cv": 0.02},
        "common": {"kind": "normal", "cv": 0.01},
        "spikes": {"probability": 0.001, "slowdown": 2.0},
        "episodes": {"rate_per_gpu_day": 0.01, "mean_hours": 0.4, "severity": 1.5},
        "autocorrelation": 0.2,
    },
    "gpus_per_node": 4,
    "tensor_parallel_size": 2,
    "scaling": {"kind": "strong", "reference_num_gpus": 32},
    "overlap": {"kind": "none", "load_prefetch": False},
    "backward_fraction": BACKWARD,
    "synchronization": {"kind": "every_step"},
    "num_spare_gpus": 0,
    "num_evicted_gpus": 0,
    "failures": {
        "failures_per_1000_node_days": 6.5,
        "mtbf_hours_per_gpu": None,
        "detection_s": 60.0,
        "restart_s": 240.0,
        "checkpoint_write_s": 30.0,
        "checkpoint_interval_s": 600.0,
        "asynchronous_checkpoint": False,
    },
    "pipeline": {
        "schedule": "1f1b",
        "stages": 4,
        "microbatches": 16,
        "chunks_per_stage": 1,
        "forward_ms": None,
        "backward_ms": None,
        "stage_weights": [1.0, 2.0, 2.0, 1.0],
        "backward_weight_fraction": 0.4,
        "p2p_ms": 0.1,
        "per_op_jitter": {"kind": "lognormal", "cv": 0.02},
    },
    "total_steps": 1000,
    "period_days": 7,
    "seed": 3,
    "draws": 256,
}
OTHER_DEFAULTS: dict[str, Any] = {
    "gpus_per_node": 8,
    "tensor_parallel_size": 1,
    "scaling": "weak",
    "overlap": {"kind": "none", "load_prefetch": False},
    "backward_fraction": BACKWARD,
    "synchronization": {"kind": "every_step"},
    "num_spare_gpus": 0,
    "num_evicted_gpus": 0,
    "failures": None,
    "pipeline": None,
    "total_steps": None,
    "draws": 1000,
}
GROUP = {"count": 1, "speed_fraction": 0.7}
PIPELINE: dict[str, Any] = {"schedule": "gpipe", "stages": 2, "microbatches": 4}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*WHOLE, "kind", "transient", "cv", "allreduce_ms", "count", "", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)
PATHS = st.lists(
    st.sampled_from(
        [*WHOLE, "transient", "cv", "allreduce_ms", "kind", "count", "0", "1", "\u0663", "x"]
    )
    | TEXT,
    min_size=1,
    max_size=4,
).map(".".join)
SCENARIOS = st.builds(
    Scenario,
    num_gpus=st.integers(40, 10_000_000),
    compute_ms=st.floats(MIN_COMPUTE_MS, 1e12),
    load_ms=st.just(0.0) | st.floats(0, 1e12),
    communication=st.builds(Fixed, allreduce_ms=st.just(0.0) | st.floats(0, 1e12)),
    slow_groups=st.lists(
        st.builds(SlowGroup, count=st.integers(1, 10), speed_fraction=st.floats(MIN_SPEED, 1)),
        max_size=4,
    ).map(tuple),
    variability=st.builds(
        Variability, transient=st.none() | st.builds(Normal, cv=st.floats(0, 0.3))
    ),
    period_days=st.integers(1, 3660),
    seed=st.integers(0, MAX_SEED),
)


def refused(value: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidScenario) as caught:
        decode_scenario(value)
    return [(problem.pointer, problem.code) for problem in caught.value.problems]


def overrides_refused(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> list[Problem]:
    with pytest.raises(InvalidScenario) as caught:
        apply_overrides(base, overrides)
    return list(caught.value.problems)


def test_the_smallest_scenario_has_the_defaults_of_the_model_page() -> None:
    assert full(decode_scenario(SMALLEST)) == {
        "num_gpus": 8,
        "compute_ms": 300.0,
        "load_ms": 0.0,
        "communication": {"kind": "fixed", "allreduce_ms": 0.0},
        "slow_groups": [],
        "variability": {
            **dict.fromkeys(
                ["transient", "persistent", "node", "replica", "common", "spikes", "episodes"]
            ),
            "autocorrelation": 0.0,
        },
        **OTHER_DEFAULTS,
        "period_days": 30,
        "seed": 0,
    }


def test_every_field_is_read() -> None:
    assert full(decode_scenario(WHOLE)) == WHOLE
    assert set(WHOLE) == {field.name for field in msgspec.structs.fields(Scenario)}


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"num_gpus": "8"}, "/num_gpus", "wrong_type"),
        ({"num_gpus": 8.0}, "/num_gpus", "wrong_type"),
        ({"num_gpus": True}, "/num_gpus", "wrong_type"),
        ({"num_gpus": None}, "/num_gpus", "wrong_type"),
        ({"num_gpus": 0}, "/num_gpus", "out_of_range"),
        ({"num_gpus": 10_000_001}, "/num_gpus", "out_of_range"),
        ({"num_gpus": 10**400}, "/num_gpus", "out_of_range"),
        ({"compute_ms": 0}, "/compute_ms", "out_of_range"),
        ({"compute_ms": 5e-324}, "/compute_ms", "out_of_range"),
        ({"compute_ms": math.nan}, "/compute_ms", "out_of_range"),
        ({"compute_ms": math.inf}, "/compute_ms", "out_of_range"),
        ({"compute_ms": 10**400}, "/compute_ms", "out_of_range"),
        ({"compute_ms": 1.1e12}, "/compute_ms", "out_of_range"),
        ({"compute_ms": True}, "/compute_ms", "wrong_type"),
        ({"compute_ms": "300"}, "/compute_ms", "wrong_type"),
        ({"load_ms": -1e-9}, "/load_ms", "out_of_range"),
        ({"load_ms": math.nan}, "/load_ms", "out_of_range"),
        ({"load_ms": math.inf}, "/load_ms", "out_of_range"),
        ({"communication": {"kind": "fixed", "allreduce_ms": -math.inf}},
         "/communication/allreduce_ms", "out_of_range"),
        ({"communication": {"kind": "star"}}, "/communication/kind", "not_one_of"),
        ({"communication": {"kind": "ring"}}, "/communication/link", "missing_field"),
        ({"overlap": {"kind": "all"}}, "/overlap/kind", "not_one_of"),
        ({"overlap": {"kind": "buckets", "num_buckets": 0}}, "/overlap/num_buckets",
         "out_of_range"),
        ({"backward_fraction": 1}, "/backward_fraction", "out_of_range"),
        ({"communication": None}, "/communication", "wrong_type"),
        ({"communication": {}}, "/communication/kind", "missing_field"),
        ({"communication": {"kind": 1}}, "/communication/kind", "not_one_of"),
        ({"slow_groups": [{**GROUP, "count": 0}]}, "/slow_groups/0/count", "out_of_range"),
        ({"slow_groups": [{**GROUP, "speed_fraction": 0}]},
         "/slow_groups/0/speed_fraction", "out_of_range"),
        ({"slow_groups": [GROUP, {**GROUP, "speed_fraction": 5e-324}]},
         "/slow_groups/1/speed_fraction", "out_of_range"),
        ({"slow_groups": [{**GROUP, "speed_fraction": 1.01}]},
         "/slow_groups/0/speed_fraction", "out_of_range"),
        ({"slow_groups": [{**GROUP, "speed_fraction": math.nan}]},
         "/slow_groups/0/speed_fraction", "out_of_range"),
        ({"slow_groups": [GROUP] * 17}, "/slow_groups", "wrong_length"),
        *[
            ({"slow_groups": [{**GROUP, "placement": placement}]}, "/slow_groups/0/placement", code)
            for placement, code in [
                ("first", "not_one_of"), (-1, "out_of_range"), (1024, "out_of_range"),
                (1.5, "wrong_type"), (True, "wrong_type"), (None, "wrong_type"),
                ([0], "wrong_type"), ({}, "wrong_type"), (math.nan, "wrong_type"),
            ]
        ],
        *[
            ({"pipeline": {**PIPELINE, "forward_ms": ms, "backward_ms": 2.0}},
             f"/pipeline/forward_ms{position}", code)
            for ms, position, code in [
                (True, "", "wrong_type"), ("3", "", "wrong_type"), ({}, "", "wrong_type"),
                (0, "", "out_of_range"), (-1, "", "out_of_range"), (math.nan, "", "out_of_range"),
                (math.inf, "", "out_of_range"), (10**400, "", "out_of_range"),
                ([], "", "wrong_length"), ([1.0] * 1025, "", "wrong_length"),
                ([1, "x"], "/1", "wrong_type"), ([True, 1], "/0", "wrong_type"),
                ([1, None], "/1", "wrong_type"), ([[1], 1], "/0", "wrong_type"),
                ([1, math.nan], "/1", "out_of_range"), ([0, 1], "/0", "out_of_range"),
            ]
        ],
        ({"pipeline": {**PIPELINE, "stage_weights": 3}}, "/pipeline/stage_weights", "wrong_type"),
        ({"pipeline": {**PIPELINE, "stage_weights": [1, -1]}},
         "/pipeline/stage_weights/1", "out_of_range"),
        ({"pipeline": {**PIPELINE, "schedule": "2f2b"}}, "/pipeline/schedule", "not_one_of"),
        ({"pipeline": {**PIPELINE, "stages": 0}}, "/pipeline/stages", "out_of_range"),
        ({"pipeline": {**PIPELINE, "microbatches": 4.0}}, "/pipeline/microbatches", "wrong_type"),
        ({"pipeline": {**PIPELINE, "chunks": 2}}, "/pipeline/chunks", "unknown_field"),
        ({"pipeline": {"stages": 2, "microbatches": 4}}, "/pipeline/schedule", "missing_field"),
        ({"variability": {"transient": {"kind": "normal"}}},
         "/variability/transient/cv", "missing_field"),
        ({"variability": {"transient": {"cv": 0.1}}},
         "/variability/transient/kind", "missing_field"),
        ({"variability": {"transient": {"kind": "cauchy", "cv": 0.1}}},
         "/variability/transient/kind", "not_one_of"),
        ({"variability": {"transient": {"kind": "gamma", "cv": 1.01}}},
         "/variability/transient/cv", "out_of_range"),
        ({"variability": {"transient": {"kind": "gamma", "cv": math.nan}}},
         "/variability/transient/cv", "out_of_range"),
        ({"variability": {"persistant": None}}, "/variability/persistant", "unknown_field"),
        ({"variability": {"spikes": {"probability": 0.1}}},
         "/variability/spikes/slowdown", "missing_field"),
        ({"variability": {"spikes": {"probability": 1.1, "slowdown": 2}}},
         "/variability/spikes/probability", "out_of_range"),
        ({"variability": {"autocorrelation": 1}}, "/variability/autocorrelation", "out_of_range"),
        ({"scaling": "strong"}, "/scaling", "not_one_of"),
        ({"scaling": {"kind": "strong"}}, "/scaling/reference_num_gpus", "missing_field"),
        ({"scaling": {"kind": "weak", "reference_num_gpus": 8}}, "/scaling/kind", "not_one_of"),
        ({"scaling": {"reference_num_gpus": 8}}, "/scaling/kind", "missing_field"),
        ({"synchronization": {"kind": "never"}}, "/synchronization/kind", "not_one_of"),
        ({"failures": {"mtbf_hours_per_gpu": 0}}, "/failures/mtbf_hours_per_gpu", "out_of_range"),
        ({"failures": {"mtbf_hours_per_gpu": 9, "checkpoint_interval_s": "best"}},
         "/failures/checkpoint_interval_s", "not_one_of"),
        ({"total_steps": 0}, "/total_steps", "out_of_range"),
        ({"draws": 15}, "/draws", "out_of_range"),
        ({"period_days": 0}, "/period_days", "out_of_range"),
        ({"period_days": 3661}, "/period_days", "out_of_range"),
        ({"seed": -1}, "/seed", "out_of_range"),
        ({"seed": 2**53}, "/seed", "out_of_range"),
        ({"num_gpu": 1}, "/num_gpu", "unknown_field"),
    ],
)  # fmt: skip
def test_a_value_out_of_its_field_is_refused(
    change: Mapping[str, Any], pointer: str, code: str
) -> None:
    assert refused({**SMALLEST, **change}) == [(pointer, code)]


def test_bounds_themselves_are_allowed() -> None:
    for change in (
        {"num_gpus": 1},
        {"num_gpus": 10_000_000},
        {"compute_ms": 1e12, "load_ms": 1e12},
        {"compute_ms": 1e-9},
        {"slow_groups": [{"count": 1, "speed_fraction": 1}, {"count": 1, "speed_fraction": 1e-6}]},
        {"slow_groups": [{"count": 8, "speed_fraction": 0.5}]},
        {"variability": {"transient": {"kind": "normal", "cv": 0.3}}},
        {"variability": {"transient": {"kind": "lognormal", "cv": 1}}},
        {"period_days": 3660, "seed": MAX_SEED},
    ):
        decode_scenario({**SMALLEST, **change})


def test_all_faults_are_reported_not_only_the_first() -> None:
    assert refused({"compute_ms": -1, "slow_groups": [1, {}], "period_days": "30", "x": 0}) == [
        ("/x", "unknown_field"),
        ("/num_gpus", "missing_field"),
        ("/compute_ms", "out_of_range"),
        ("/slow_groups/0", "wrong_type"),
        ("/slow_groups/1/count", "missing_field"),
        ("/slow_groups/1/speed_fraction", "missing_field"),
        ("/period_days", "wrong_type"),
    ]


@pytest.mark.parametrize("value", [None, 1, "x", [], True])
def test_what_is_no_object_is_refused(value: object) -> None:
    assert refused(value) == [("", "wrong_type")]


def test_rules_across_fields_are_all_checked() -> None:
    value = {
        **SMALLEST,
        "slow_groups": [{"count": 9, "speed_fraction": 0.5}],
        "variability": {"transient": {"kind": "normal", "cv": 0.31}},
    }
    assert refused(value) == [
        ("/slow_groups/0/count", "too_many_slow_gpus"),
        ("/variability/transient/cv", "cv_too_large_for_normal"),
    ]
    assert decode_fields(value).slow_groups[0].count == 9


def test_the_normal_form_drops_defaults() -> None:
    assert normalised(decode_scenario(SMALLEST)) == SMALLEST
    assert normalised(decode_scenario(full(decode_scenario(SMALLEST)))) == SMALLEST
    left_out = ("num_spare_gpus", "num_evicted_gpus", "synchronization", "overlap")
    whole = {name: value for name, value in WHOLE.items() if name not in left_out}
    del whole["backward_fraction"]
    given = ("mtbf_hours_per_gpu", "asynchronous_checkpoint")
    failures = {name: value for name, value in WHOLE["failures"].items() if name not in given}
    unset = ("chunks_per_stage", "forward_ms", "backward_ms")
    pipeline = {name: value for name, value in WHOLE["pipeline"].items() if name not in unset}
    documents = {"failures": failures, "pipeline": pipeline}
    assert normalised(decode_scenario(WHOLE)) == {**whole, **documents}
    value = {
        **WHOLE,
        **OTHER_DEFAULTS,
        "slow_groups": [{**GROUP, "placement": "random"}],
        "variability": {"transient": {"kind": "normal", "cv": 0.05}},
        "period_days": 30,
        "seed": 0,
        "load_ms": 0,
        "communication": {"kind": "fixed"},
    }
    assert normalised(decode_scenario(value)) == {
        "num_gpus": 64,
        "compute_ms": 300.0,
        "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
        "variability": {"transient": {"kind": "normal", "cv": 0.05}},
    }


@settings(deadline=None, max_examples=100)
@given(SCENARIOS)
def test_both_forms_come_back_as_the_same_scenario(scenario: Scenario) -> None:
    for form in (full(scenario), normalised(scenario)):
        assert decode_scenario(json.loads(json.dumps(form))) == scenario
    assert normalised(decode_scenario(full(scenario))) == normalised(scenario)


def test_an_override_replaces_everything_at_its_path() -> None:
    changed = apply_overrides(
        WHOLE,
        {
            "num_gpus": 128,
            "variability.transient": {"kind": "gamma", "cv": 0.1},
            "slow_groups.0": {"count": 2},
            "communication": {},
        },
    )
    assert changed == {
        **WHOLE,
        "num_gpus": 128,
        "variability": {**WHOLE["variability"], "transient": {"kind": "gamma", "cv": 0.1}},
        "slow_groups": [{"count": 2}],
        "communication": {},
    }


def test_a_base_and_its_lists_stay_as_they_are() -> None:
    base = json.loads(json.dumps(WHOLE))
    apply_overrides(base, {"slow_groups.0.count": 5, "communication.allreduce_ms": 1, "seed": 9})
    assert base == WHOLE
    assert apply_overrides(full(decode_scenario(WHOLE)), {}) == WHOLE


def test_null_sets_null() -> None:
    changed = apply_overrides(WHOLE, {"variability.persistent": None})
    assert decode_scenario(changed).variability.persistent is None
    assert refused(apply_overrides(WHOLE, {"load_ms": None})) == [("/load_ms", "wrong_type")]


def test_a_field_that_the_document_leaves_out_can_be_set() -> None:
    changed = apply_overrides(
        SMALLEST,
        {
            "communication.allreduce_ms": 80,
            "variability.transient": {"kind": "normal", "cv": 0.1},
            "load_ms": 1,
        },
    )
    assert changed == {
        **SMALLEST,
        "communication": {"kind": "fixed", "allreduce_ms": 80},
        "variability": {"transient": {"kind": "normal", "cv": 0.1}},
        "load_ms": 1,
    }
    # The stored default is not what was changed.
    assert apply_overrides(SMALLEST, {"communication.allreduce_ms": 1})["communication"] == {
        "kind": "fixed",
        "allreduce_ms": 1,
    }


@pytest.mark.parametrize(
    ("path", "pointer", "code"),
    [
        ("slow_groups.1.count", "/slow_groups/1/count", "unknown_path"),
        ("slow_groups.1", "/slow_groups/1", "unknown_path"),
        ("slow_groups.00", "/slow_groups/00", "unknown_path"),
        ("slow_groups.-1", "/slow_groups/-1", "unknown_path"),
        ("slow_groups.\u0660.count", "/slow_groups/\u0660/count", "unknown_path"),
        ("slow_groups." + "9" * 5000, "/slow_groups/" + "9" * 5000, "unknown_path"),
        ("slow_groups.count", "/slow_groups/count", "unknown_path"),
        ("load_ms.x", "/load_ms/x", "unknown_path"),
        ("nothing.x/y", "/nothing/x~1y", "unknown_path"),
        (".", "//", "unknown_path"),
        ("variability.transient.cv.x", "/variability/transient/cv/x", "unknown_path"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(path: str, pointer: str, code: str) -> None:
    (problem,) = overrides_refused(WHOLE, {path: 1})
    assert (problem.pointer, problem.code) == (pointer, code)


@pytest.mark.parametrize("field", ["x", ""])
def test_an_unknown_field_is_refused_when_the_scenario_is_decoded(field: str) -> None:
    assert refused(apply_overrides(WHOLE, {field: 1})) == [(f"/{field}", "unknown_field")]


@pytest.mark.parametrize("base", [{"variability": {"transient": None}}, {"variability": {}}, {}])
def test_a_path_under_null_is_refused_even_where_null_is_a_default(
    base: dict[str, Any],
) -> None:
    (problem,) = overrides_refused(base, {"variability.transient.cv": 0.1})
    assert problem == Problem(
        pointer="/variability/transient/cv",
        code="path_under_null",
        detail="'variability.transient.cv' lies under 'transient', which is null",
    )


def test_nested_overrides_are_refused_in_whatever_order() -> None:
    nested = {
        "variability.transient.cv": 0.1,
        "variability": {},
        "slow_groups": [],
        "slow_groups.0.count": 1,
        "load_ms": 1,
    }
    problems = overrides_refused(WHOLE, nested)
    assert [(p.pointer, p.code) for p in problems if p.code == "nested_paths"] == [
        ("/variability/transient/cv", "nested_paths"),
        ("/slow_groups/0/count", "nested_paths"),
    ]
    assert problems[0].detail == (
        "'variability.transient.cv' lies under 'variability': their order would decide"
    )


def test_names_that_only_begin_alike_are_not_nested() -> None:
    assert apply_overrides({}, {"load": 1, "load_ms": 2}) == {"load": 1, "load_ms": 2}


@settings(deadline=None, max_examples=150)
@given(JSON | st.fixed_dictionaries({"num_gpus": JSON, "compute_ms": JSON}, optional={"x": JSON}))
def test_any_json_is_a_scenario_or_refused(value: object) -> None:
    try:
        scenario = decode_scenario(value)
    except InvalidScenario as error:
        problems = error.problems
    else:
        assert decode_scenario(full(scenario)) == scenario
        return
    assert problems
    assert all(problem.detail and problem.code for problem in problems)


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([WHOLE, SMALLEST]) | st.dictionaries(st.sampled_from([*WHOLE]), JSON),
    st.dictionaries(PATHS, JSON, max_size=4),
)
def test_any_overrides_are_applied_or_refused(
    base: dict[str, Any], overrides: dict[str, Any]
) -> None:
    before = json.dumps(base)
    try:
        apply_overrides(base, overrides)
    except InvalidScenario as error:
        codes = {problem.code for problem in error.problems}
    else:
        codes = set()
    assert codes <= {"unknown_path", "path_under_null", "nested_paths"}
    assert json.dumps(base) == before


@pytest.mark.parametrize("kind", ["normal", "lognormal", "gamma"])
@pytest.mark.parametrize("cv", [0.0, 5e-324, 1e-200, 1e-15])
def test_a_draw_of_a_vanishing_variability_is_finite(kind: str, cv: float) -> None:
    value = {**SMALLEST, "variability": {"transient": {"kind": kind, "cv": cv}}}
    draw = draw_ranks(decode_scenario(value))
    assert np.isclose(draw.slowest_compute_ms, 300, rtol=1e-9)
    assert np.isclose(draw.median_compute_ms, 300, rtol=1e-9)
