from typing import Any

from service.cli import batch_report


def row(name: str, inputs: dict[str, Any], lost: float, cost: str | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "inputs": inputs,
        "result": {
            "step_mean_ms": 538.5714,
            "efficiency_fraction": 0.76127,
            "gpu_hours_lost": lost,
        },
        "cost_of_loss": None if cost is None else {"amount": cost, "currency": "EUR"},
    }


def test_one_item_needs_no_name_and_no_rate_needs_no_column() -> None:
    rows = [row("a", {"num_gpus": 1024}, 176_008.48), row("a", {"num_gpus": 8}, 1375.07)]
    assert batch_report.loss_table(rows).splitlines() == [
        "num_gpus  step [ms]  efficiency [%]  lost [GPU-hours]",
        "--------  ---------  --------------  ----------------",
        "   1 024     538.57           76.13           176 008",
        "       8     538.57           76.13             1 375",
    ]


def test_several_items_are_told_apart_and_priced() -> None:
    kind = {"variability.transient": None, "variability.transient.kind": "normal"}
    rows = [row("one slow", {"cv": 0.05}, 10.04, "12345.60"), row("fixed", kind, 0.0)]
    found = batch_report.loss_table(rows).splitlines()
    assert found[0].split("  ")[0] == "item"
    assert found[0].endswith("cost of the loss")
    assert found[2].startswith("one slow")
    assert found[2].endswith("12 345.60 EUR")
    assert found[2].split()[2:5] == ["0.05", "-", "-"]
    assert found[3].split()[:4] == ["fixed", "-", "null", "normal"]
    assert found[3].endswith("-")


def test_a_plan_says_what_would_happen() -> None:
    plan = {
        "items": [{}],
        "points_total": 15_000,
        "points_failing": 4,
        "estimated_s": 0.2,
        "reused_from": "b-1",
        "warnings": [{"pointer": "/items/0/axes/0", "detail": "2 values were equal"}],
    }
    assert batch_report.plan_lines(plan) == [
        "Valid: 1 item, 15 000 points, about 0.2 s; nothing was stored",
        "4 points break a rule and would fail",
        "Would take over the results of b-1",
        "note: /items/0/axes/0: 2 values were equal",
    ]
