"""How long plans take: by their sizes, each plan once."""

from typing import Any

import pytest

from service.model.columns import columns_of, joined
from service.model.plan_lengths import plan_steps
from tests.model.piped_scenarios import STEP, piped, put

LISTED = {"stage_weights": [1.0] * 8}
SLOW = {"slow_groups": [{"count": 1, "speed_fraction": 0.7}]}


@pytest.mark.parametrize(
    ("pipeline", "changes", "levels"),
    [
        ({}, {}, 0),
        ({"schedule": "gpipe"}, {}, 0),
        (LISTED, {}, 16 + 8),
        ({}, SLOW, 16 + 8),
        ({"schedule": "zb1p"}, {}, 16 + 8),
        ({"schedule": "zbv", "chunks_per_stage": 2}, {}, 32 + 8),
    ],
)
def test_levels_where_no_formula_holds(
    pipeline: dict[str, Any], changes: dict[str, Any], levels: int
) -> None:
    columns = columns_of(piped(pipeline, **changes))
    ordered = 8 * 16 * pipeline.get("chunks_per_stage", 1) / 40
    assert plan_steps(columns).tolist() == [levels + ordered]


def test_each_plan_counts_once_and_none_without_a_pipeline() -> None:
    scenarios = [piped({"p2p_ms": 1.0}), piped(), piped({"microbatches": 32})]
    alone = put(piped(), {**STEP, "pipeline": None})
    columns = joined([columns_of(each) for each in (*scenarios, alone)])
    assert plan_steps(columns).tolist() == [3.2, 0, 6.4, 0]
    assert plan_steps(columns_of(alone)).tolist() == [0]
