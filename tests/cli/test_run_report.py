"""Budgets in other people's builds: every exit code, against a real service."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.cli.child_service import running_service
from tests.cli.conftest import Program
from tests.cli.test_report import NOWHERE, batch_of, post
from tests.jobs.batch_bodies import SEED, item

FAIL = "--fail-over-budget"
NBSP = "\N{NO-BREAK SPACE}"
FAILING = {"path": "slow_groups.0.count", "values": [1, 2000]}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One service for all tests of this file."""
    folder = tmp_path_factory.mktemp("service")
    url = f"sqlite:///{folder / 'trainard.db'}"
    with running_service(url, port=0, log=folder / "service.log") as found:
        yield found


def a_file(tmp_path: Path, **changes: Any) -> str:
    """A batch that loses 176 008 GPU-hours in 30 days."""
    path = tmp_path / "batch.json"
    items = [item(**changes)]
    body = {"name": "build", "start_on": "2026-12-01", "items": items, "currency": "EUR"}
    path.write_text(json.dumps(body), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 0, ""),
        ((FAIL,), 6, "Not judged: there is no budget.\n"),
        (("--budget-gpu-hours", "176009", FAIL), 0, ""),
        (("--budget-gpu-hours", "176008", FAIL), 5, "Over budget.\n"),
        (("--budget-gpu-hours", "176008"), 0, ""),
        # There is no rate.
        (
            ("--budget-cost", "1000000EUR", FAIL),
            6,
            "Not judged: the budget is not known (not all days have a rate).\n",
        ),
        (
            ("--budget-cost", "1000000EUR", FAIL, "--language", "fr"),
            6,
            f"Non jugé{NBSP}: le budget est inconnu (tous les jours n’ont pas de tarif).\n",  # noqa: RUF001 - French
        ),
        ((FAIL, "--language", "fr"), 6, f"Non jugé{NBSP}: il n’y a pas de budget.\n"),  # noqa: RUF001 - French
        (("--budget-gpu-hours", "1", FAIL, "--language", "fr"), 5, "Budget dépassé.\n"),
        (("--budget-cost", "1EUR", "--budget-gpu-hours", "1", FAIL), 5, "Over budget.\n"),
    ],
)
def test_a_build_fails_by_its_budget(
    trainard: Program, address: str, tmp_path: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    done = trainard("run-report", "--batch", a_file(tmp_path), *options, "--url", address)
    begun, _, rest = done.stderr.partition("\n")
    assert (done.returncode, rest) == (code, said), done.stderr
    assert begun.startswith("Batch ")
    assert begun.endswith(" has begun")
    lost = f"Perdu en 30 jours{NBSP}: 176" if "fr" in options else "Lost in 30 days: 176"
    assert lost in done.stdout


def test_a_budget_in_another_currency_is_refused_before_anything_is_computed(
    trainard: Program, address: str, tmp_path: Path
) -> None:
    path = a_file(tmp_path)
    done = trainard("run-report", "--batch", path, "--budget-cost", "1USD", "--url", address)
    assert done.returncode == 2
    assert "/currency: the budget is in USD, but the batch is priced in EUR" in done.stderr
    assert "has begun" not in done.stderr


def test_french_is_spoken_to_the_end(trainard: Program, address: str, tmp_path: Path) -> None:
    output = tmp_path / "perte.html"
    done = trainard(
        *("run-report", "--batch", a_file(tmp_path), "--language", "fr"),
        *("--save", str(output), "--url", address),
    )
    assert done.returncode == 0, done.stderr
    report, saved = done.stdout.rstrip().split("\n")[-2:]
    assert report.startswith("Rapport 0")
    assert f"{NBSP}: {address}/v1/reports/" in report
    size = f"{output.stat().st_size:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    assert saved == f"{output}{NBSP}: {size} octets"


def test_an_unknown_ending_is_told_with_those_there_are(trainard: Program, tmp_path: Path) -> None:
    output = str(tmp_path / "loss.pdf")
    done = trainard("run-report", "nightly", "--save", output)
    assert done.returncode == 2
    said = " ".join(done.stderr.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", " ").split())
    for ending in (".html", ".json", ".csv", ".parquet", ".focus.csv"):
        assert ending in said
    assert "--format" not in said


def test_a_batch_is_compared_and_its_report_saved(
    trainard: Program, address: str, tmp_path: Path
) -> None:
    past = batch_of(address, "2026-11-01", slow_groups=[])
    output, page = tmp_path / "loss.json", tmp_path / "loss.html"
    done = trainard(
        *("run-report", "--batch", a_file(tmp_path), "--baseline", past),
        *("--save", str(output), "--save", str(page), "--url", address),
    )
    assert done.returncode == 0, done.stderr
    saved = json.loads(output.read_text(encoding="utf-8"))
    assert saved["baseline"]["batch_id"] == past
    assert saved["headline"]["gpu_hours_lost_change"]["past"] == 0
    assert f"{output}: " in done.stdout
    assert saved["report_id"] in page.read_text(encoding="utf-8")


def test_alternatives_alone_are_within_no_budget(
    trainard: Program, address: str, tmp_path: Path
) -> None:
    axes = [{"path": path, "values": [64, 128]} for path in ("num_gpus", "load_ms")]
    path = a_file(tmp_path, axes=axes)
    budget = ("--budget-gpu-hours", "1e9", FAIL)
    done = trainard("run-report", "--batch", path, *budget, "--url", address)
    assert done.returncode == 6, done.stderr
    assert "Not judged: the budget is not known (not all items have numbers).\n" in done.stderr


@pytest.mark.parametrize(("headline", "judged"), [(1, 3), (2000, 6)])
def test_points_that_failed_are_told(
    trainard: Program, address: str, tmp_path: Path, headline: int, judged: int
) -> None:
    """Where the headline itself has failed, nobody can say what is lost."""
    path = a_file(tmp_path, axes=[FAILING], headline={FAILING["path"]: headline})
    budget = ("--budget-gpu-hours", "1e9")
    done = trainard("run-report", "--batch", path, *budget, "--url", address)
    assert done.returncode == 3, done.stderr
    done = trainard("run-report", "--batch", path, *budget, FAIL, "--url", address)
    assert done.returncode == judged, done.stderr


def test_a_schedule_runs_now_against_its_own_budget(
    trainard: Program, address: str, tmp_path: Path
) -> None:
    schedule = {
        "slug": "nightly",
        "name": "Nightly",
        "cron": "30 2 * * *",
        "zone": "Europe/Paris",
        "batch": {"items": [item()]},
        "budget": {"gpu_hours_lost_per_30_days": 1},
        "paused": True,
    }
    post(address, "/v1/schedules", schedule)
    output = tmp_path / "loss.html"
    done = trainard("run-report", "nightly", FAIL, "--save", str(output), "--url", address)
    assert done.returncode == 5, done.stderr
    assert "has begun\nOver budget.\n" in done.stderr
    assert "Lost in 30 days: 176" in done.stdout
    assert output.read_bytes().startswith(b"<!DOCTYPE html>")
    (run,) = httpx.get(f"{address}/v1/schedules/nightly/runs").json()["items"]
    assert (run["kind"], run["state"], run["budget_status"]) == ("manual", "succeeded", "over")
    assert run["report_id"] in done.stdout


def test_a_run_without_a_report_says_why(trainard: Program, address: str) -> None:
    schedule = {
        "slug": "refused",
        "name": "Refused",
        "cron": "30 2 * * *",
        "zone": "UTC",
        "batch": {"items": [{"custom_id": "a", "profile": "later"}]},
        "paused": True,
    }
    profile = {"slug": "later", "name": "l", "gpu_type": "H100", "defaults": SEED}
    post(address, "/v1/cluster-profiles", profile)
    post(address, "/v1/schedules", schedule)
    etag = httpx.get(f"{address}/v1/cluster-profiles/later").headers["etag"]
    archive = f"{address}/v1/cluster-profiles/later/archival"
    assert httpx.post(archive, headers={"If-Match": etag}).is_success
    done = trainard("run-report", "refused", "--url", address)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "is failed: " in done.stderr


def test_what_makes_no_sense_is_refused(trainard: Program, address: str, tmp_path: Path) -> None:
    path = a_file(tmp_path)
    broken = tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    for options in (
        (),
        ("nightly", "--batch", path),
        ("nightly", "--budget-gpu-hours", "1"),
        ("--batch", path, "--budget-cost", "1.5"),
        ("--batch", path, "--save", str(tmp_path / "a.pdf")),
        ("--batch", str(broken)),
    ):
        done = trainard("run-report", *options, "--url", address)
        assert done.returncode == 2, (options, done.stdout, done.stderr)
    assert trainard("run-report", "unknown", "--url", address).returncode == 1
    done = trainard("run-report", "--batch", path, "--baseline", NOWHERE, "--url", address)
    assert done.returncode == 1
    assert "there is no batch" in done.stderr
