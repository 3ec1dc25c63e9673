import csv
import io
import json
from typing import Any

import pytest

from service.api.examples import PIPED
from tests.cli.conftest import Program

SEARCH: dict[str, Any] = {
    "scenario": PIPED,
    "search": {"stages": [8, 4], "schedules": ["1f1b", "zb_h1"], "max_parameter_ratio": 1},
}


def test_the_best_pipeline_is_the_first_line(trainard: Program) -> None:
    done = trainard("pipeline-search", "-", stdin=json.dumps(SEARCH))
    assert done.returncode == 0, done.stderr
    head, counts, _, headings, _, best, second, *rest = done.stdout.splitlines()
    assert head == "lost in 30 days: 26 922 of 46 080 GPU-hours"
    assert counts == (
        "2 of 4 pipelines evaluated, left out: 2 by memory, 0 by rules, 0 for want of time"
    )
    assert headings.split()[:4] == ["schedule", "P", "M", "V"]
    assert best.split()[:4] == ["zb_h1", "8", "4", "1"]
    assert second.split()[:4] == ["1f1b", "8", "4", "1"]
    assert any(line.startswith("note: p2p_ms is taken") for line in rest)
    assert "left out: 2, such as: 2 times the parameters of the scenario, at most 1 fit" in rest


def test_a_scenario_itself_is_searched_and_a_price_shows_money(trainard: Program) -> None:
    arguments = ("pipeline-search", "-", "--price", "2.00", "--currency", "EUR")
    done = trainard(*arguments, "--format", "csv", stdin=json.dumps(PIPED))
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 20
    losses = [float(row["gpu_hours_lost"]) for row in rows]
    assert losses == sorted(losses)
    for row in rows:
        assert float(row["money_lost"]) == pytest.approx(2 * float(row["gpu_hours_lost"]), abs=0.01)
        assert row["currency"] == "EUR"
        assert json.loads(row["overrides"]).get("pipeline.stages", 8) == int(row["stages"])
    table = trainard(*arguments, stdin=json.dumps(SEARCH)).stdout
    assert table.count(" EUR") == 4


def test_json_is_what_the_service_answers(trainard: Program) -> None:
    done = trainard("pipeline-search", "-", "--format", "json", stdin=json.dumps(SEARCH))
    found = json.loads(done.stdout)
    assert [row["schedule"] for row in found["pipelines"]] == ["zb_h1", "1f1b"]
    assert found["cost_status"] == "no_rate"


def test_simulated_losses_show_their_error(trainard: Program) -> None:
    jitter = {"per_op_jitter": {"kind": "lognormal", "cv": 0.05}}
    scenario = {**PIPED, "num_gpus": 8, "draws": 16, "pipeline": {**PIPED["pipeline"], **jitter}}
    body = {"scenario": scenario, "search": {"stages": [8], "schedules": ["gpipe"]}}
    assert " ± " in trainard("pipeline-search", "-", stdin=json.dumps(body)).stdout


def test_faults_are_placed_in_the_file(trainard: Program) -> None:
    alone = {**PIPED, "pipeline": None}
    done = trainard("pipeline-search", "-", stdin=json.dumps(alone))
    assert done.returncode == 2
    assert "/pipeline: there is no pipeline" in done.stderr
    wrapped = trainard("pipeline-search", "-", stdin=json.dumps({"scenario": alone}))
    assert "/scenario/pipeline: there is no pipeline" in wrapped.stderr
    both = {"scenario": PIPED, "search": {"microbatches": [4], "keep": "microbatches"}}
    done = trainard("pipeline-search", "-", stdin=json.dumps(both))
    assert "/search/keep: " in done.stderr
    unknown = {"scenario": PIPED, "search": {"stages": [0]}}
    assert (
        "/search/stages/0: " in trainard("pipeline-search", "-", stdin=json.dumps(unknown)).stderr
    )
    assert trainard("pipeline-search", "-", "--price", "2").returncode == 2
