"""The same cv under three families: design page "The model", section 3."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.questions.tail_choice import tail_choices
from service.model.scenario import decode_scenario
from tests.model.reference import expected_slowest

SCENARIO: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "variability": {"transient": {"kind": "lognormal", "cv": 0.14}},
}


def test_the_slowest_of_1_024_under_each_family() -> None:
    """cv 14 %: 1.4548 if normal, 1.5590 if lognormal."""
    found = tail_choices(decode_scenario(SCENARIO))
    factors = {choice.family: (choice.step_mean_ms - 110) / 300 for choice in found.families}
    assert factors["normal"] == pytest.approx(1.4548, abs=5e-5)
    assert factors["lognormal"] == pytest.approx(1.5590, abs=5e-5)
    for family, factor in factors.items():
        reference = expected_slowest(family, 0.14, [(1024, 1.0)])
        assert factor == pytest.approx(reference, rel=1e-8)
    lost = {choice.family: choice.lost for choice in found.families}
    available = 1024 * 24 * 30
    for family, factor in factors.items():
        assert lost[family] == pytest.approx(available * (1 - 410 / (110 + 300 * factor)), rel=1e-9)
    assert (found.lowest, found.highest) == (lost["normal"], lost["lognormal"])
    assert found.replaced == ("transient",)
    assert found.kept == ()


def test_a_family_that_a_rule_refuses_is_left_out_with_the_reason() -> None:
    scenario = {**SCENARIO, "variability": {"transient": {"kind": "lognormal", "cv": 0.4}}}
    found = tail_choices(decode_scenario(scenario))
    normal, lognormal, gamma = found.families
    assert normal.reason is not None
    assert normal.reason.code == "cv_too_large_for_normal"
    assert np.isnan(normal.lost)
    assert lognormal.reason is None
    assert (found.lowest, found.highest) == (gamma.lost, lognormal.lost)


def test_without_variability_the_choice_is_none() -> None:
    found = tail_choices(decode_scenario({**SCENARIO, "variability": {}}))
    assert found.replaced == ()
    assert [choice.lost for choice in found.families] == [0, 0, 0]
    assert found.lowest == found.highest == 0


def test_single_operations_of_a_pipeline_are_a_source_too() -> None:
    jitter = {"kind": "gamma", "cv": 0.3}
    pipeline = {"schedule": "1f1b", "stages": 4, "microbatches": 8}
    varied = {**pipeline, "per_op_jitter": jitter}
    base = {**SCENARIO, "num_gpus": 8, "draws": 16, "variability": {}}
    found = tail_choices(decode_scenario({**base, "pipeline": varied}))
    assert (found.replaced, found.kept) == (("per_op_jitter",), ())
    for choice in found.families:
        law = {**pipeline, "per_op_jitter": {"kind": choice.family, "cv": 0.3}}
        alone = evaluate(columns_of(decode_scenario({**base, "pipeline": law}))).columns
        assert choice.lost == pytest.approx(float(alone["gpu_hours_lost"][0]), rel=1e-9)
    steady = tail_choices(decode_scenario({**base, "pipeline": pipeline}))
    assert steady.replaced == ()


def test_tables_of_quantiles_are_kept() -> None:
    table = {"kind": "empirical", "quantiles": [0.9, 1.0, 1.1]}
    scenario = {
        **SCENARIO,
        "num_gpus": 2,
        "variability": {"replica": table, "transient": {"kind": "normal", "cv": 0.05}},
    }
    found = tail_choices(decode_scenario(scenario))
    assert found.kept == ("replica",)
    assert found.replaced == ("transient",)
