"""How long plans take: by their sizes, each plan once."""

from typing import Any

import pytest

from service.model.columns import columns_of, joined
from service.model.plan_lengths import STEPS_OF_A_FORMULA, plan_steps, steps_where_simulated
from tests.model.piped_scenarios import STEP, piped, put

LISTED = {"stage_weights": [1.0] * 7 + [1.1]}
EQUAL = {"stage_weights": [1.0] * 8}
ALIKE = {"variability": {"replica": {"kind": "lognormal", "cv": 0.05}}}
SLOW = {"slow_groups": [{"count": 1, "speed_fraction": 0.7}]}


@pytest.mark.parametrize(
    ("pipeline", "changes", "levels"),
    [
        (LISTED, {}, 16 + 8),
        ({}, SLOW, 16 + 8),
        ({"schedule": "zb1p"}, {}, 16 + 8),
        ({"schedule": "zbv", "chunks_per_stage": 2}, {}, 32 + 8),
        ({"schedule": "gpipe", **LISTED, "p2p_ms": 1.0}, {}, 16 + 8),
        ({"p2p_ms": 1.0}, ALIKE, 16 + 8),
        ({"schedule": "interleaved_1f1b", "chunks_per_stage": 2, "p2p_ms": 9.0}, {}, 32 + 8),
    ],
)
def test_levels_where_no_formula_holds(
    pipeline: dict[str, Any], changes: dict[str, Any], levels: int
) -> None:
    columns = columns_of(piped(pipeline, **changes))
    ordered = 8 * 16 * pipeline.get("chunks_per_stage", 1) / 40
    assert plan_steps(columns).tolist() == [levels + ordered]


@pytest.mark.parametrize(
    "pipeline",
    [
        {},
        {"schedule": "gpipe"},
        {"p2p_ms": 9.0},
        EQUAL,
        {"schedule": "gpipe", **LISTED},
        {"schedule": "interleaved_1f1b", "chunks_per_stage": 2},
        {"microbatches": 30_000},
    ],
)
def test_formulas_take_no_plan(pipeline: dict[str, Any]) -> None:
    assert plan_steps(columns_of(piped(pipeline))).tolist() == [STEPS_OF_A_FORMULA]


def test_a_quick_look_at_what_is_drawn() -> None:
    assert steps_where_simulated(columns_of(piped({}, **SLOW))).tolist() == [16 + 8 + 3.2]
    assert steps_where_simulated(columns_of(piped({"schedule": "zb1p"}))).tolist() == [0]


def test_each_plan_counts_once_and_none_without_a_pipeline() -> None:
    scenarios = [piped({"p2p_ms": 1.0}), piped(), piped({"microbatches": 32})]
    alone = put(piped(), {**STEP, "pipeline": None})
    columns = joined([columns_of(each) for each in (*scenarios, alone)])
    assert plan_steps(columns).tolist() == [1.5, 0, 1.5, 0]
    assert plan_steps(columns_of(alone)).tolist() == [0]
