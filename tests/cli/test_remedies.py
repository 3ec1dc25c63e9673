import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from service.api.examples import PIPED
from tests.cli.conftest import Program

# What one slow GPU costs 1 024 in 30 days: the founding page's figure.
LOST = 176_008.48806366057
UNREAD = """
{"scenario": {"num_gpus": 8, "compute_ms": 1},
 "remedies": [{"kind": "rebalance_work", "counts": [1]}]}
"""


def changed(example: Path, **changes: Any) -> dict[str, Any]:
    scenario: dict[str, Any] = json.loads((example / "scenario.json").read_text())
    return {**scenario, **changes}


def test_the_best_remedy_is_the_first_line(trainard: Program, example: Path) -> None:
    done = trainard("remedies", str(example / "scenario.json"))
    assert done.returncode == 0, done.stderr
    head, _, _, _, best, *rest = done.stdout.splitlines()
    assert head == "lost in 30 days: 176 008 of 737 280 GPU-hours"
    assert best.startswith("replace_slow_gpus")
    assert "+176 008" in best
    assert any(line.startswith("hot_spares") and " 1 GPU " in line for line in rest)
    assert any(line.startswith("not applicable: faster_detection: ") for line in rest)
    assert "EUR" not in done.stdout


def test_a_price_shows_money(trainard: Program, example: Path) -> None:
    arguments = ("remedies", str(example / "scenario.json"), "--price", "1.00")
    done = trainard(*arguments, "--currency", "EUR")
    (best,) = (line for line in done.stdout.splitlines() if line.startswith("replace_slow"))
    assert best.count("176 008.49 EUR") == 3
    assert trainard(*arguments).returncode == 2
    refused = trainard(*arguments, "--currency", "XAU")
    assert refused.returncode == 2
    assert "XAU" in refused.stderr


def test_json_is_what_the_service_answers(trainard: Program, example: Path) -> None:
    body = {"scenario": changed(example), "remedies": [{"kind": "hot_spares", "counts": [2]}]}
    done = trainard("remedies", "-", "--format", "json", stdin=json.dumps(body))
    found = json.loads(done.stdout)
    (spares,) = found["remedies"]
    assert spares["setting"] == {"count": 2}
    assert spares["gpu_hours_given_back"] == pytest.approx(LOST - 2 * 720, rel=1e-12)
    assert found["result"]["gpu_hours_lost"] == pytest.approx(LOST, rel=1e-12)
    assert found["cost_status"] == "no_rate"


def test_csv_has_a_line_for_each_remedy(trainard: Program, example: Path) -> None:
    file = str(example / "scenario.json")
    done = trainard("remedies", file, "--format", "csv", "--price", "2.5", "--currency", "EUR")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert rows[0]["remedy"] == "replace_slow_gpus"
    assert rows[0]["setting"] == ""
    assert float(rows[0]["gpu_hours_given_back"]) == pytest.approx(LOST, rel=1e-12)
    assert (rows[0]["money_given_back"], rows[0]["currency"]) == ("440021.22", "EUR")
    spares = next(row for row in rows if row["remedy"] == "hot_spares")
    assert json.loads(spares["overrides"]) == {"num_spare_gpus": 1}
    assert float(spares["gpu_hours_held_change"]) == 720


def test_notes_say_what_is_approximate(trainard: Program, example: Path) -> None:
    varying = {"persistent": {"kind": "lognormal", "cv": 0.03}}
    body = {
        "scenario": changed(example, variability=varying),
        "remedies": [{"kind": "rebalance_work"}],
    }
    done = trainard("remedies", "-", stdin=json.dumps(body))
    assert "note: rebalance_work: the mean speed" in done.stdout


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("{", "/: this is no JSON"),
        ('{"num_gpus": 0, "compute_ms": 1}', "/num_gpus"),
        ('{"scenario": {"num_gpus": 0, "compute_ms": 1}}', "/scenario/num_gpus"),
        ('{"scenario": {"num_gpus": 8, "compute_ms": 1}, "unknown": 1}', "/unknown"),
        (UNREAD, "/remedies/0/counts"),
    ],
)
def test_faults_are_named_with_their_place(trainard: Program, body: str, place: str) -> None:
    done = trainard("remedies", "-", stdin=body)
    assert done.returncode == 2
    assert f"  {place}" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_waits_less_often_shows_the_steps_that_would_eat_its_gain(
    trainard: Program, example: Path
) -> None:
    scenario = changed(example, slow_groups=[])
    asked = [
        {"kind": "local_steps", "steps": [10]},
        {"kind": "overlap_buckets", "num_buckets": [8], "contention_fraction": 0.1},
        {"kind": "compress_gradients"},
    ]
    done = trainard("remedies", "-", stdin=json.dumps({"scenario": scenario, "remedies": asked}))
    assert done.returncode == 0, done.stderr
    (local,) = (line for line in done.stdout.splitlines() if line.startswith("local_steps"))
    # 410 ms against 338.
    assert "every 10 steps" in local
    assert "21.30" in local.split()
    assert "break-even extra steps [%]" in done.stdout
    assert "note: waiting less often may need more steps" in done.stdout
    assert "8 buckets, contention 0.1" in done.stdout
    assert "not applicable: compress_gradients: the communication is a fixed time" in done.stdout
    done = trainard(
        "remedies", "-", stdin=json.dumps({"scenario": scenario, "remedies": asked[1:]})
    )
    assert "extra steps" not in done.stdout


def test_a_gain_over_one_thing_after_the_other_is_called_one(
    trainard: Program, example: Path
) -> None:
    hidden = {"kind": "none", "load_prefetch": True}
    scenario = changed(example, slow_groups=[], overlap=hidden)
    done = trainard("remedies", "-", stdin=json.dumps({"scenario": scenario}))
    # 737 280 GPU-hours x 30 / 380
    assert done.stdout.startswith("gained in 30 days: 58 206 of 737 280 GPU-hours\n")


def test_remedies_of_a_pipeline_tell_what_a_gpu_holds(trainard: Program) -> None:
    asked = [
        {"kind": "more_microbatches", "microbatches": [8]},
        {"kind": "fewer_stages"},
        {"kind": "prefetch_load"},
        {"kind": "rebalance_stages"},
    ]
    body = json.dumps({"scenario": {**PIPED, "load_ms": 20}, "remedies": asked})
    table = trainard("remedies", "-", stdin=body).stdout
    lines = {line.split()[0]: line for line in table.splitlines() if line}
    assert "in flight  activations [x]  parameters [x]" in lines["remedy"]
    # 8 micro-batches of half the size in flight; half the stages have half as many micro-batches.
    assert lines["more_microbatches"].endswith("4 to 8                1               1")
    assert lines["fewer_stages"].endswith("4 to 2                1               2")
    assert lines["prefetch_load"].endswith("-                -               -")
    assert " 8 micro-batches " in lines["more_microbatches"]
    assert "not applicable: rebalance_stages: all stages have equal work already" in table
    assert "note: more_microbatches 8 micro-batches: p2p_ms is taken to be the same" in table
    done = trainard("remedies", "-", "--format", "csv", stdin=body)
    rows = {row["remedy"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
    assert rows["fewer_stages"]["parameter_ratio"] == "2.0"
    assert rows["fewer_stages"]["peak_microbatches_in_flight_after"] == "2.0"
    assert rows["prefetch_load"]["activation_ratio"] == ""
