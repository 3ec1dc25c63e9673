"""Rules across fields: the same for one scenario and for points of a grid."""

from typing import Any

import pytest

from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.problems import InvalidScenario, Problem
from service.model.rules import FAILURES, describe_failure, failures, failures_by_rule
from service.model.scenario import decode_fields, decode_scenario

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
    return FAILURES[failures(columns_of(scenario))[0]]


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


def test_every_code_has_a_rule_and_a_sentence() -> None:
    scenario = decode_fields({**WIDE, "slow_groups": CROWDED["slow_groups"]})
    assert set(failures_by_rule(columns_of(scenario))) == set(range(1, len(FAILURES)))
    for code in range(1, len(FAILURES)):
        assert describe_failure(code, scenario).code == FAILURES[code]


def test_the_sentence_of_a_scenario_without_variability() -> None:
    problem = describe_failure(2, decode_fields(CROWDED))
    assert problem.detail.startswith("cv is 0.0")
