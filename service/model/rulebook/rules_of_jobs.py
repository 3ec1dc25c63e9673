"""Rules about failures and checkpoints."""

from typing import Any

import numpy as np

from service.model.active import has_failures
from service.model.columns import Columns
from service.model.failures import time_ratios
from service.model.fields import Scenario
from service.model.rulebook.rule import Mask, Rule

MIN_TIME_RATIO = 1e-9
"""So that days and hours of a fixed amount of work stay numbers."""


def _not_one_rate(columns: Columns) -> Mask:
    by_node = ~np.isnan(columns["failures.failures_per_1000_node_days"])
    by_gpu = ~np.isnan(columns["failures.mtbf_hours_per_gpu"])
    broken: Mask = has_failures(columns) & (by_node == by_gpu)
    return broken


def _say_not_one_rate(scenario: Scenario) -> tuple[str, str]:
    failures: Any = scenario.failures
    given = "none" if failures.mtbf_hours_per_gpu is None else "both"
    return (
        "/failures",
        f"give one of failures_per_1000_node_days and mtbf_hours_per_gpu, here are {given}",
    )


def _interval_too_short(columns: Columns) -> Mask:
    asynchronous = columns["failures.asynchronous_checkpoint"] == 2
    interval = columns["failures.checkpoint_interval_s"]
    write = columns["failures.checkpoint_write_s"]
    broken: Mask = asynchronous & (interval > 0) & (interval < write)
    return broken


def _say_interval_too_short(scenario: Scenario) -> tuple[str, str]:
    failures: Any = scenario.failures
    return (
        "/failures/checkpoint_interval_s",
        (
            f"a checkpoint every {failures.checkpoint_interval_s} s, but one takes "
            f"{failures.checkpoint_write_s} s to write"
        ),
    )


def _never_done(columns: Columns) -> Mask:
    if not has_failures(columns).any():
        return np.zeros(columns.num_points, dtype=np.bool_)
    broken: Mask = time_ratios(columns).share < MIN_TIME_RATIO
    return broken


def _say_never_done(scenario: Scenario) -> tuple[str, str]:
    failures: Any = scenario.failures
    away = failures.detection_s + failures.restart_s
    return (
        "/failures",
        (
            f"the job fails so often that less than {MIN_TIME_RATIO:g} of its time is left: "
            f"{scenario.num_gpus} GPUs, {away:g} s to detect and restart, "
            f"{failures.checkpoint_write_s:g} s to write a checkpoint"
        ),
    )


_HAS_FAILURES = "failures.asynchronous_checkpoint"

JOB_RULES = (
    Rule("not_one_failure_rate", _not_one_rate, _say_not_one_rate, _HAS_FAILURES),
    Rule(
        "checkpoint_interval_too_short", _interval_too_short, _say_interval_too_short, _HAS_FAILURES
    ),
    Rule("job_never_progresses", _never_done, _say_never_done, _HAS_FAILURES),
)
