"""Reports of a real service on this machine: made, listed, shown, saved, and made again by hand."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from service.cli.child_service import running_service
from service.reports.loss_report import LossReport
from tests.cli.conftest import Program, environment
from tests.jobs.batch_bodies import SEED, item

# 1 slow GPU of 1 024 at 0.7 takes 3/7 of the compute time more.
LOST = 176008.48806366057
NOWHERE = "01a22c62-874f-710f-a9d8-8dc7c6404430"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One service for all tests of this file."""
    folder = tmp_path_factory.mktemp("service")
    url = f"sqlite:///{folder / 'trainard.db'}"
    with running_service(url, port=0, log=folder / "service.log") as found:
        yield found


def post(address: str, path: str, body: Any, **headers: str) -> dict[str, Any]:
    answer = httpx.post(f"{address}{path}", json=body, headers=headers, timeout=60)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def batch_of(address: str, start_on: str, **scenario: Any) -> str:
    priced = {"pricing": {"gpu_type": "H100"}}
    body = {
        "name": "nightly",
        "start_on": start_on,
        "currency": "EUR",
        "items": [item(scenario={**SEED, **scenario}, **priced)],
    }
    found = post(address, "/v1/scenario-batches", body, Prefer="wait=30")
    assert found["state"] == "succeeded", found
    return str(found["id"])


@pytest.fixture(scope="module")
def batches(address: str) -> tuple[str, str]:
    """Two batches, one after the other, priced at 2.00 EUR."""
    rate = {
        "gpu_type": "H100",
        "price_per_gpu_hour": {"amount": "2.00", "currency": "EUR"},
        "valid_from": "2026-01-01",
        "source": "example",
    }
    post(address, "/v1/gpu-hour-rates", rate)
    return batch_of(address, "2026-11-01", slow_groups=[]), batch_of(address, "2026-12-01")


@pytest.fixture(scope="module")
def report_id(address: str, batches: tuple[str, str]) -> str:
    body = {"batch_id": batches[1], "baseline_batch_id": batches[0]}
    return str(post(address, "/v1/reports", body)["id"])


def test_a_report_is_made_and_its_headline_printed(
    trainard: Program, address: str, batches: tuple[str, str]
) -> None:
    past, new = batches
    done = trainard(
        *("report", "make", new, "--baseline", past, "--name", "mine", "--pricing", "1"),
        *("--baseline-pricing", "1", "--url", address),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mine, made ")
    assert "Lost in 30 days: 176\N{THIN SPACE}008" in done.stdout or "176,008" in done.stdout
    assert "352,016.98" in done.stdout
    made = httpx.get(f"{address}/v1/reports", params={"page_size": 1}).json()["items"][0]
    assert (made["name"], made["baseline_batch_id"]) == ("mine", past)
    place = f"Report {made['id']}: {address}/v1/reports/{made['id']}/content?format=html"
    assert done.stdout.splitlines()[-1] == place


def test_reports_are_listed(trainard: Program, address: str, report_id: str) -> None:
    done = trainard("report", "list", "--url", address)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = [line for line in done.stdout.splitlines() if report_id in line]
    assert line.endswith("nightly")
    none = trainard("report", "list", "--batch", NOWHERE, "--url", address)
    assert (none.returncode, none.stdout) == (0, "There are no reports.\n")


def test_a_report_is_shown_in_another_language(
    trainard: Program, address: str, report_id: str
) -> None:
    english = trainard("report", "show", report_id, "--url", address)
    french = trainard("report", "show", report_id, "--language", "fr", "--url", address)
    assert (english.returncode, french.returncode) == (0, 0), english.stderr + french.stderr
    assert "Lost in 30 days" in english.stdout
    assert "30 jours" in french.stdout
    unknown = trainard("report", "show", NOWHERE, "--url", address)
    assert unknown.returncode == 1
    assert "there is no report" in unknown.stderr


@pytest.mark.parametrize(
    "name", ["loss.html", "loss.json", "loss.csv", "loss.parquet", "a.focus.csv"]
)
def test_a_report_is_saved_as_its_file_is_called(
    trainard: Program, address: str, report_id: str, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    done = trainard("report", "save", report_id, "--output", str(path), "--url", address)
    assert (done.returncode, done.stderr) == (0, "")
    format_name = "focus" if "focus" in name else name.rpartition(".")[2]
    content = f"{address}/v1/reports/{report_id}/content"
    assert path.read_bytes() == httpx.get(content, params={"format": format_name}).content
    assert done.stdout.startswith(f"{path}: ")
    assert sorted(tmp_path.iterdir()) == [path]


def test_what_is_asked_for_by_hand_wins(
    trainard: Program, address: str, report_id: str, tmp_path: Path
) -> None:
    path = tmp_path / "report.txt"
    french = ("--format", "html", "--language", "fr", "-o", str(path))
    assert trainard("report", "save", report_id, *french, "--url", address).returncode == 0
    assert '<html lang="fr"' in path.read_text(encoding="utf-8")
    for output, sentence in (
        (path, "ends in none of .html, .json"),
        (tmp_path / "none" / "a.html", "there is no folder"),
    ):
        done = trainard("report", "save", report_id, "-o", str(output), "--url", address)
        assert done.returncode == 2
        assert sentence in done.stderr
    options = ("--format", "html", "-o", str(path))
    assert trainard("report", "save", NOWHERE, *options, "--url", address).returncode == 1


def test_its_commands_give_the_same_numbers_again(
    address: str, report_id: str, trainard: Program
) -> None:
    """Each command as a person would paste it into a shell."""
    assert trainard("report", "show", report_id, "--url", address).returncode == 0
    content = f"{address}/v1/reports/{report_id}/content"
    told = httpx.get(content, params={"format": "json"}).content
    report = msgspec.json.decode(told, type=LossReport)
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {"TRAINARD_URL": address, "PATH": programs}

    def pasted(command: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env={**environment(), **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    stored, results, evaluated, by_hand, again = map(pasted, report.reproduce.commands)
    assert json.loads(stored) == json.loads(told)
    (row,) = json.loads(results)["items"]
    (shown,) = report.items
    assert shown.gpu_hours_lost == row["result"]["gpu_hours_lost"] == pytest.approx(LOST)
    assert json.loads(evaluated)["result"]["gpu_hours_lost"] == shown.gpu_hours_lost
    assert f'"gpu_hours_lost": {shown.gpu_hours_lost!r}' in json.dumps(json.loads(by_hand))
    newest = httpx.get(f"{address}/v1/reports", params={"page_size": 1}).json()["items"][0]["id"]
    assert newest in again
    made_again = httpx.get(f"{address}/v1/reports/{newest}/content", params={"format": "json"})
    same = msgspec.json.decode(made_again.content, type=LossReport)
    for part in ("headline", "waterfall", "items", "movers", "remedies", "warnings", "baseline"):
        assert getattr(same, part) == getattr(report, part), part
