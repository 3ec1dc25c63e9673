"""Rules across fields: the same for one scenario and for points of a grid."""

from typing import Any

import pytest

from service.model.active import SOURCES
from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.problems import InvalidScenario, Problem
from service.model.rules import FAILURES, describe_failure, failures, failures_by_rule
from service.model.scenario import decode_fields, decode_scenario, full
from service.model.simulated_points import rank_steps
from tests.model import pipeline_rule_examples as pipelines
from tests.model import waiting_rule_examples as waiting


def _other(source: str) -> str:
    return "common" if source == "transient" else "transient"


CROWDED = {
    "num_gpus": 64,
    "compute_ms": 300,
    "slow_groups": [{"count": 70, "speed_fraction": 0.7}],
}
WIDE = {
    "num_gpus": 64,
    "compute_ms": 300,
    "variability": {"transient": {"kind": "normal", "cv": 0.31}},
}


def broken(document: dict[str, Any]) -> list[Problem]:
    with pytest.raises(InvalidScenario) as caught:
        decode_scenario(document)
    return list(caught.value.problems)


def first_failure(scenario: Scenario) -> str:
    return FAILURES[int(failures(columns_of(scenario))[0])]


def test_more_slow_gpus_than_gpus() -> None:
    assert broken(CROWDED) == [
        Problem(
            pointer="/slow_groups/0/count",
            code="too_many_slow_gpus",
            detail="70 slow GPUs, but num_gpus is 64",
        )
    ]
    assert first_failure(decode_fields(CROWDED)) == "too_many_slow_gpus"


def test_several_slow_groups_are_named_together() -> None:
    groups = [{"count": 40, "speed_fraction": 0.7}, {"count": 25, "speed_fraction": 0.9}]
    problem = broken({**CROWDED, "slow_groups": groups})[0]
    assert problem.pointer == "/slow_groups"
    assert problem.detail == "65 slow GPUs, but num_gpus is 64"


@pytest.mark.parametrize("counts", [[64], [32, 32], [1, 63]])
def test_as_many_slow_gpus_as_gpus_are_allowed(counts: list[int]) -> None:
    groups = [{"count": count, "speed_fraction": 0.7} for count in counts]
    assert first_failure(decode_scenario({**CROWDED, "slow_groups": groups})) == ""


def test_a_normal_factor_that_would_often_be_negative() -> None:
    problem = broken(WIDE)[0]
    assert problem.pointer == "/variability/transient/cv"
    assert problem.code == "cv_too_large_for_normal"
    assert "0.31" in problem.detail
    assert "0.3," in problem.detail
    assert "lognormal" in problem.detail


@pytest.mark.parametrize(("kind", "cv"), [("normal", 0.3), ("lognormal", 1), ("gamma", 1)])
def test_spreads_up_to_the_limit_are_allowed(kind: str, cv: float) -> None:
    document = {**WIDE, "variability": {"transient": {"kind": kind, "cv": cv}}}
    assert first_failure(decode_scenario(document)) == ""


def test_all_broken_rules_are_named() -> None:
    assert [
        problem.code
        for problem in broken({**CROWDED, **WIDE, "slow_groups": CROWDED["slow_groups"]})
    ] == [
        "too_many_slow_gpus",
        "cv_too_large_for_normal",
    ]


STEP = {"num_gpus": 64, "compute_ms": 300}
NORMAL = {"kind": "normal", "cv": 0.25}
GAMMA = {"kind": "gamma", "cv": 0.1}
FEW = {"kind": "empirical", "quantiles": [1, 2, 3]}
LEFT = {"kind": "shifted_gamma", "cv": 0.2, "skew": 0.3}
BACKUP = {"kind": "backup_workers", "count": 4}
EPISODES = {"rate_per_gpu_day": 1, "mean_hours": 1, "severity": 1.5}
MANY = [{"count": 5, "speed_fraction": 0.5 + place / 20} for place in range(6)]
BROKEN: dict[str, list[dict[str, Any]]] = {
    "too_many_slow_gpus": [CROWDED],
    "cv_too_large_for_normal": [
        {"variability": {source: {"kind": "normal", "cv": 0.31}}} for source in SOURCES
    ],
    "too_many_evicted_gpus": [{"num_evicted_gpus": 64}, {"num_evicted_gpus": 100}],
    "no_whole_replicas": [
        {"tensor_parallel_size": 5, "gpus_per_node": 10},
        {"tensor_parallel_size": 4, "gpus_per_node": 6},
    ],
    "too_many_backup_workers": [{"synchronization": {**BACKUP, "count": 33}}],
    "backup_workers_in_blocks": [
        {"synchronization": BACKUP, "variability": {"node": GAMMA}},
        {"synchronization": BACKUP, "variability": {"replica": GAMMA}, "tensor_parallel_size": 2},
        {"synchronization": BACKUP, "num_spare_gpus": 1},
        {"synchronization": BACKUP, "num_evicted_gpus": 1},
    ],
    "standing_by_in_replicas": [
        {"variability": {"replica": GAMMA}, "tensor_parallel_size": 2, standing: 1}
        for standing in ("num_spare_gpus", "num_evicted_gpus")
    ],
    "standing_by_in_nodes": [
        {"variability": {"node": GAMMA}, "slow_groups": MANY[:1], standing: 1}
        for standing in ("num_spare_gpus", "num_evicted_gpus")
    ],
    "cv_too_large_in_product": [
        *({"variability": {source: NORMAL, _other(source): GAMMA}} for source in SOURCES),
        {"variability": {"transient": NORMAL, "spikes": {"probability": 0.01, "slowdown": 2}}},
    ],
    "occupancy_too_high": [{"variability": {"episodes": {**EPISODES, "mean_hours": 24}}}],
    "autocorrelation_without_transient": [{"variability": {"autocorrelation": 0.1}}],
    "not_one_failure_rate": [
        {"failures": {}},
        {"failures": {"mtbf_hours_per_gpu": 1e5, "failures_per_1000_node_days": 1}},
    ],
    "checkpoint_interval_too_short": [
        {
            "failures": {
                "mtbf_hours_per_gpu": 1e5,
                "asynchronous_checkpoint": True,
                "checkpoint_write_s": 60,
                "checkpoint_interval_s": 59,
            }
        }
    ],
    "job_never_progresses": [{"failures": {"mtbf_hours_per_gpu": 1e-3, "restart_s": 1e5}}],
    "beyond_observed_tail": [{"variability": {source: FEW}} for source in SOURCES[:-1]]
    + [{"variability": {"replica": FEW}, "tensor_parallel_size": 8}],
    "factor_below_zero": [{"variability": {source: LEFT}} for source in SOURCES],
    "too_many_compositions": [
        {"variability": {"node": GAMMA}, "slow_groups": MANY},
        {"variability": {"node": GAMMA, "episodes": EPISODES}, "slow_groups": MANY[:2]},
        {"variability": {"replica": GAMMA}, "tensor_parallel_size": 8, "slow_groups": MANY},
    ],
    "too_many_states": [{"variability": {"episodes": EPISODES}, "slow_groups": MANY}],
    **waiting.BROKEN,
    **pipelines.BROKEN,
}


@pytest.mark.parametrize(
    ("code", "change"),
    [
        (code, change)
        for examples in (BROKEN, pipelines.OF_JITTER)
        for code, some in examples.items()
        for change in some
    ],
)
def test_a_scenario_that_breaks_a_rule_is_told_which(code: str, change: dict[str, Any]) -> None:
    scenario = decode_fields({**STEP, **change})
    problems = broken({**STEP, **change})
    assert code in [problem.code for problem in problems]
    assert first_failure(scenario) in [problem.code for problem in problems]
    for problem in problems:
        place: Any = full(scenario)
        for part in problem.pointer.split("/")[1:]:
            place = place[int(part)] if isinstance(place, list) else place[part]
        assert len(problem.detail) > 15


def test_every_code_has_an_example() -> None:
    assert set(FAILURES[1:]) == set(BROKEN)
    scenario = decode_fields(STEP)
    assert set(failures_by_rule(columns_of(scenario))) == set(range(1, len(FAILURES)))


NEARLY: list[dict[str, Any]] = [
    {
        "variability": {"node": GAMMA},
        "slow_groups": [{"count": 1, "speed_fraction": 1}],
        "num_spare_gpus": 1,
    },
    {
        "variability": {"node": GAMMA},
        "gpus_per_node": 1,
        "slow_groups": MANY[:1],
        "num_spare_gpus": 1,
    },
    {"num_evicted_gpus": 63},
    {"tensor_parallel_size": 4, "gpus_per_node": 4},
    {"synchronization": {**BACKUP, "count": 32}},
    {"synchronization": BACKUP, "variability": {"node": GAMMA}, "gpus_per_node": 1},
    {"synchronization": BACKUP, "variability": {"replica": GAMMA}},
    {"synchronization": {**BACKUP, "count": 0}, "num_spare_gpus": 1},
    {"variability": {"node": GAMMA}, "tensor_parallel_size": 2, "num_spare_gpus": 1},
    {"variability": {"transient": {"kind": "normal", "cv": 0.21}, "common": GAMMA}},
    {"variability": {"transient": NORMAL, "common": {"kind": "gamma", "cv": 0}}},
    {"variability": {"transient": NORMAL, "spikes": {"probability": 0, "slowdown": 2}}},
    {"variability": {"episodes": {**EPISODES, "mean_hours": 16}}},
    {"variability": {"transient": GAMMA, "autocorrelation": 0.1}},
    {"failures": {"mtbf_hours_per_gpu": 1e5, "checkpoint_write_s": 9, "checkpoint_interval_s": 1}},
    {"variability": {"common": FEW}},
    {"variability": {"replica": FEW}, "tensor_parallel_size": 8, "num_gpus": 16},
    {"variability": {"transient": {**FEW, "allow_extrapolation": True}}},
    {"variability": {"transient": {**LEFT, "skew": 0.4}}},
    {"variability": {"node": GAMMA}, "slow_groups": MANY[:3]},
    {"variability": {"replica": GAMMA}, "slow_groups": MANY},
    {"slow_groups": MANY},
    *waiting.NEARLY,
    *pipelines.NEARLY,
]


@pytest.mark.parametrize("change", NEARLY)
def test_just_inside_a_rule_is_allowed(change: dict[str, Any]) -> None:
    assert first_failure(decode_scenario({**STEP, **change})) == ""


def test_the_sentence_of_a_scenario_without_variability() -> None:
    problem = describe_failure(2, decode_fields(CROWDED))
    assert problem.detail.startswith("cv is 0.0")


def test_only_who_waits_later_and_varies_is_simulated() -> None:
    varying = {**STEP, "variability": {"transient": GAMMA}}
    stale = {"synchronization": {"kind": "bounded_staleness", "staleness": 1}}
    plain, steady, later = (
        columns_of(decode_scenario(document))
        for document in (varying, {**STEP, **stale}, {**varying, **stale})
    )
    assert rank_steps(plain, with_causes=False).tolist() == [0]
    assert rank_steps(steady, with_causes=False).tolist() == [0]
    assert rank_steps(later, with_causes=False)[0] >= STEP["num_gpus"] * 1000


@pytest.mark.parametrize(
    ("num_gpus", "reference", "microbatches", "evicted", "nearest"),
    [(16, 8, 5, 0, [8, 20]), (28, 8, 8, 0, [16, 32]), (32, 8, 8, 4, [20, 36]), (8, 4, 1, 0, [4])],
)
def test_sizes_that_divide_the_micro_batches_are_named(
    num_gpus: int, reference: int, microbatches: int, evicted: int, nearest: list[int]
) -> None:
    document = {
        "num_gpus": num_gpus,
        "num_evicted_gpus": evicted,
        "compute_ms": 100,
        "pipeline": {"schedule": "1f1b", "stages": 4, "microbatches": microbatches},
        "scaling": {"kind": "strong", "reference_num_gpus": reference},
    }
    (problem,) = broken(document)
    assert f"num_gpus of {' or '.join(map(str, nearest))} would do" in problem.detail
    for size in nearest:
        assert first_failure(decode_scenario({**document, "num_gpus": size})) == ""


def test_no_size_divides_the_micro_batches() -> None:
    document = {
        "num_gpus": 8,
        "compute_ms": 100,
        "pipeline": {"schedule": "1f1b", "stages": 4, "microbatches": 1},
        "scaling": {"kind": "strong", "reference_num_gpus": 3},
    }
    (problem,) = broken(document)
    assert problem.detail.endswith("no other size does")
