import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.cli.demo_report import clusters_table
from service.cli.sent_keys import VARIABLE
from tests.cli.conftest import Program, Start, environment


def table_line(text: str, first: str) -> str:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(first)]
    return line


def test_demo_prints_the_figures_and_ends(trainard: Program) -> None:
    done = trainard("demo", "--exit", "--port", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("succeeded, 120 of 120 points") == 2
    losses, measured = done.stdout.split("measured on public traces")
    assert "founding page's illustration" in losses
    # The founding page's loss of one GPU at 0.7 among 1 024, and its efficiency.
    assert "176 008 (76.1 %)" in table_line(measured.split("Each cluster")[0], "1 024 ")
    assert "no rate" in measured
    (total,) = [line for line in done.stdout.splitlines() if line.startswith("all ")]
    assert "-167 " in total
    assert "/docs" in done.stdout
    assert "worst points first:  curl 'http" in done.stdout
    assert "Authorization" not in done.stdout


def test_demo_again_on_the_same_file_reuses_everything(trainard: Program) -> None:
    arguments = ("demo", "--exit", "--database-url", "sqlite:///kept.db")
    first, second = trainard(*arguments), trainard(*arguments)
    assert second.returncode == 0, second.stderr
    assert "0 created, 4 there already" in second.stdout
    batches = [re.findall(r"Batch (\S+)", done.stdout) for done in (first, second)]
    assert batches[0] == batches[1]
    priced = trainard(*arguments, "--rate", "2.00", "--currency", "EUR")
    assert priced.returncode == 0, priced.stderr
    # 176 008.488… GPU-hours at 2.00
    assert "352 016.98 EUR" in priced.stdout
    assert "by changed rates: 0.00 EUR" in priced.stdout
    again = trainard(*arguments, "--rate", "3.00", "--currency", "EUR")
    assert "kept the one that is there" in again.stdout


def test_demo_on_a_database_with_keys_prints_what_works_there(
    trainard: Program, tmp_path: Path
) -> None:
    at = ("--database-url", "sqlite:///keyed.db")
    key = trainard("key", "create", "--role", "admin", *at).stdout.strip()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "service", "demo", "--exit", *at],
        cwd=tmp_path,
        env={**environment(), VARIABLE: key},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = [line for line in done.stdout.splitlines() if "curl" in line]
    assert len(lines) == 5
    for line in lines:
        assert 'curl -H "Authorization: Bearer $TRAINARD_API_KEY" ' in line
    assert key not in done.stdout + done.stderr


def test_bad_rate_is_a_sentence(trainard: Program) -> None:
    refused = trainard("demo", "--exit", "--rate", "cheap")
    assert refused.returncode == 1
    assert "cheap" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_demo_keeps_serving_until_it_is_told_to_stop(start: Start) -> None:
    process = start("demo", "--port", "0")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Serving until"):
            break
    assert process.poll() is None
    process.terminate()
    assert process.wait(timeout=60) == 143


def test_second_batch_differs_only_in_the_slow_gpu(example: Path) -> None:
    slow, fixed = (load(example / f"{name}.json") for name in ("batch", "batch-fixed"))
    (overridden,) = [item for item in slow["items"] if item.pop("overrides", None)]
    assert overridden["profile"] == "prod-h100"
    slow.pop("name")
    fixed.pop("name")
    assert slow == fixed


def load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


@pytest.mark.parametrize(
    ("status", "cost", "shown"),
    [
        ("withheld", None, "withheld"),
        ("no_rate", None, "no rate"),
        ("priced", {"amount": "1234.50", "currency": "EUR"}, "EUR"),
    ],
)
def test_a_key_that_sees_no_costs_is_not_told_that_there_is_no_rate(
    status: str, cost: dict[str, str] | None, shown: str
) -> None:
    result = dict.fromkeys(
        ("displayed_utilization_fraction", "useful_compute_fraction", "efficiency_fraction"), 0.5
    )
    row = {
        "profile": "prod@1",
        "inputs": {"num_gpus": 64},
        "result": {**result, "gpu_hours_lost": 10.0},
        "cost_of_loss": cost,
        "cost_status": status,
    }
    assert clusters_table([row]).splitlines()[-1].rstrip().endswith(shown)
