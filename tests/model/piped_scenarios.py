"""Scenarios with pipelines, stated briefly."""

from typing import Any

from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.kernel import evaluate
from service.model.scenario import apply_overrides, decode_scenario, full

STEP: dict[str, Any] = {
    "num_gpus": 64,
    "load_ms": 0,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
}
PIPELINE: dict[str, Any] = {"schedule": "1f1b", "stages": 8, "microbatches": 16}


def piped(pipeline: dict[str, Any] | None = None, **changes: Any) -> Scenario:
    return decode_scenario({**STEP, "pipeline": {**PIPELINE, **(pipeline or {})}, **changes})


def put(scenario: Scenario, overrides: dict[str, Any]) -> Scenario:
    """As anybody would who repeats what a remedy says."""
    return decode_scenario(apply_overrides(full(scenario), overrides))


def step_ms(scenario: Scenario) -> float:
    return result(scenario, "step_mean_ms")


def result(scenario: Scenario, name: str) -> float:
    return float(evaluate(columns_of(scenario), with_spread=False).columns[name][0])
