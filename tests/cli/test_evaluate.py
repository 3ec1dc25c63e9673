import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Program

# The founding page's figures, also in shared/oracle/barrier.jsonl.
LOST = 176_008.48806366057
EMPTY_AXIS = """
{"scenario": {"num_gpus": 8, "compute_ms": 1}, "axes": [{"path": "num_gpus", "values": []}]}
"""
STEP_MS = 538.5714285714287


def changed(example: Path, **changes: Any) -> str:
    scenario = json.loads((example / "scenario.json").read_text())
    return json.dumps({**scenario, **changes})


def test_founding_figure_in_the_table(trainard_process: Program, example: Path) -> None:
    done = trainard_process("evaluate", str(example / "scenario.json"))
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("gpu_hours_lost "))
    assert "176 008" in line


def test_json_carries_all_digits(trainard: Program, example: Path) -> None:
    done = trainard("evaluate", str(example / "scenario.json"), "--format", "json")
    (point,) = json.loads(done.stdout)["points"]
    assert point["failure"] is None
    assert point["result"]["gpu_hours_lost"] == pytest.approx(LOST, rel=1e-12)
    assert point["result"]["step_mean_ms"] == pytest.approx(STEP_MS, rel=1e-12)


def test_grid_as_csv_has_a_line_for_each_point(trainard: Program, example: Path) -> None:
    done = trainard("evaluate", str(example / "grid.json"), "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [int(row["num_gpus"]) for row in rows[::2]] == [2**power for power in range(3, 18)]
    assert {row["communication.allreduce_ms"] for row in rows} == {"80.0", "200.0"}
    # Founding page: no slow GPU, 5 %: 0.9505 at 8 GPUs and 0.8938 at 1 024.
    at = {int(row["num_gpus"]): row["efficiency_fraction"] for row in rows[::2]}
    assert f"{float(at[8]):.4f}" == "0.9505"
    assert f"{float(at[1024]):.4f}" == "0.8938"


def test_limit_computes_only_the_first_points(trainard: Program, example: Path) -> None:
    done = trainard("evaluate", str(example / "grid.json"), "--limit", "3")
    assert len(done.stdout.splitlines()) == 2 + 3
    assert "27 more points" in done.stderr


def test_standard_input_is_read(trainard: Program, example: Path) -> None:
    done = trainard("evaluate", "-", stdin=changed(example))
    assert "176 008" in done.stdout


def test_rule_that_is_broken_is_named_with_its_pointer(trainard: Program, example: Path) -> None:
    text = changed(example, num_gpus=64, slow_groups=[{"count": 70, "speed_fraction": 0.7}])
    refused = trainard("evaluate", "-", stdin=text)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "/slow_groups/0/count" in refused.stderr
    assert "70 slow GPUs, but num_gpus is 64" in refused.stderr


@pytest.mark.parametrize(
    ("text", "pointer", "word"),
    [
        ("", "/", "no JSON"),
        ("[1, 2]", "/scenario", "wrong_type"),
        ('{"num_gpus": NaN}', "/", "no JSON"),
        ('{"num_gpus": 8, "compute_ms": 300, "speling": 1}', "/speling", "speling"),
        ('{"num_gpus": "8", "compute_ms": 300}', "/num_gpus", "num_gpus"),
        (
            '{"scenario": {"num_gpus": 8, "compute_ms": -1}, "axes": []}',
            "/scenario/compute_ms",
            "-1",
        ),
        (
            EMPTY_AXIS,
            "/axes/0",
            "axes",
        ),
        ('{"scenario": {"num_gpus": 8, "compute_ms": 1}, "grid": []}', "/grid", "unknown_field"),
    ],
)
def test_bad_input_is_refused_with_its_place(
    trainard: Program, text: str, pointer: str, word: str
) -> None:
    refused = trainard("evaluate", "-", stdin=text)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert f"  {pointer}" in refused.stderr
    assert word in refused.stderr
    assert "Traceback" not in refused.stderr


def test_points_that_break_a_rule_fail_alone(trainard: Program, example: Path) -> None:
    text = json.dumps(
        {
            "scenario": json.loads(
                changed(example, slow_groups=[{"count": 16, "speed_fraction": 0.7}])
            ),
            "axes": [{"path": "num_gpus", "values": [8, 64]}],
        }
    )
    done = trainard("evaluate", "-", "--format", "json", stdin=text)
    failed, computed = json.loads(done.stdout)["points"]
    assert failed["failure"]["code"] == "too_many_slow_gpus"
    assert failed["result"]["gpu_hours_lost"] is None
    assert computed["failure"] is None
    assert computed["result"]["gpu_hours_lost"] > 0
    table = trainard("evaluate", "-", stdin=text)
    assert "point 0 failed: 16 slow GPUs, but num_gpus is 8" in table.stdout
