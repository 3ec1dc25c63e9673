"""`trainard history` of a real service: read, counted, for spreadsheets and programs."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from service.cli.child_service import running_service
from service.cli.history import _cell, bars
from tests.cli.conftest import Program

SCENARIO: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with two batches of one scenario, the second with longer loading."""
    folder = tmp_path_factory.mktemp("service")
    url = f"sqlite:///{folder / 'trainard.db'}"
    with running_service(url, port=0, log=folder / "service.log") as found:
        for load_ms in (30, 60):
            body = {
                "name": "night",
                "start_on": "2026-12-01",
                "items": [
                    {"custom_id": "a", "name": "one", "scenario": {**SCENARIO, "load_ms": load_ms}},
                    {
                        "custom_id": "b",
                        "name": "grid",
                        "scenario": SCENARIO,
                        "axes": [{"path": "num_gpus", "values": [8, 16]}],
                    },
                ],
            }
            headers = {"Prefer": "wait=30"}
            answer = httpx.post(
                f"{found}/v1/scenario-batches", json=body, headers=headers, timeout=60
            )
            assert answer.json()["state"] == "succeeded", answer.text
        yield found


def shown(trainard: Program, address: str, *arguments: str) -> str:
    done = trainard("history", *arguments, "--url", address)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_table_shows_change_and_trend(trainard: Program, address: str) -> None:
    lines = shown(trainard, address, "--scenario", "one").splitlines()
    assert lines[0].split("  ")[0] == "day"
    assert "176,008" in lines[-5] or any("176,008" in line for line in lines)
    assert any(line.startswith("2026-12-01") and "-" in line for line in lines)
    assert lines[-1] == "one  █▁"
    # Why there is no money, and who would say what moved
    assert [line.endswith(" no rate") for line in lines if "176,008" in line] == [True]
    assert "trainard report make BATCH --baseline BATCH." in "".join(lines)


def test_csv_and_json_hold_the_numbers(trainard: Program, address: str) -> None:
    rows = list(
        csv.DictReader(
            io.StringIO(shown(trainard, address, "--scenario", "one", "--format", "csv"))
        )
    )
    whole = json.loads(shown(trainard, address, "--scenario", "one", "--format", "json"))
    lost = [row["gpu_hours_lost_per_30_days"] for row in whole["items"]]
    assert [float(row["gpu_hours_lost_per_30_days"]) for row in rows] == lost
    assert float(rows[1]["gpu_hours_lost_difference"]) == pytest.approx(lost[1] - lost[0])
    assert [row["batch_id"] for row in rows] == [row["batch_id"] for row in whole["items"]]
    assert (rows[0]["cost_of_loss_per_30_days"], rows[0]["run_id"]) == ("", "")
    assert [(row["cost_status"], row["pricing"]) for row in rows] == [("no_rate", "1")] * 2
    assert "next_page_token" not in whole


def test_a_name_that_a_spreadsheet_would_run_is_harmless(trainard: Program, address: str) -> None:
    name = '=HYPERLINK("https://evil.example","x")'
    item = {"custom_id": "a", "name": name, "scenario": SCENARIO}
    body = {"name": "night", "start_on": "2026-12-02", "items": [item]}
    for _ in range(2):
        answer = httpx.post(
            f"{address}/v1/scenario-batches", json=body, headers={"Prefer": "wait=30"}, timeout=60
        )
        assert answer.json()["state"] == "succeeded", answer.text
    rows = list(
        csv.DictReader(io.StringIO(shown(trainard, address, "--scenario", name, "--format", "csv")))
    )
    assert [row["scenario"] for row in rows] == [f"'{name}"] * 2
    assert _cell("-12.50") == "-12.50"
    assert [_cell(text) for text in ("+a", "-a", "@a", "-1-1", "\ta")] == [
        *("'+a", "'-a", "'@a", "'-1-1", "'\ta")
    ]


def test_totals_say_what_they_leave_out(trainard: Program, address: str) -> None:
    out = shown(trainard, address, "--group-by", "team", "--from", "2026-12-01")
    assert out.splitlines()[-1] == "Not shown: 2 items without a headline point."
    assert "all  █▁" in out
    nothing = shown(trainard, address, "--group-by", "team", "--until", "2026-12-01")
    assert nothing.splitlines() == ["There are no runs."]


def test_items_that_came_or_went_are_told_beside_the_change(
    trainard: Program, address: str
) -> None:
    """The two totals differ by more than the change, which is of what both have."""
    items = [
        {"custom_id": name, "name": "twin", "scenario": {**SCENARIO, "num_gpus": gpus}}
        for name, gpus in (("n1", 64), ("n2", 128), ("n3", 256))
    ]
    for day, chosen in ((1, items[:1]), (2, items[1:])):
        body = {"name": "night", "start_on": f"2027-01-0{day}", "items": chosen}
        answer = httpx.post(
            f"{address}/v1/scenario-batches", json=body, headers={"Prefer": "wait=30"}, timeout=60
        )
        assert answer.json()["state"] == "succeeded", answer.text
    asked = ("--group-by", "team", "--from", "2027-01-02")
    lines = shown(trainard, address, *asked).splitlines()
    assert any(line.startswith("2027-01-02") and "2 appeared, 1 gone" in line for line in lines)
    assert "Changes are of the items that both runs have." in lines
    (row,) = csv.DictReader(io.StringIO(shown(trainard, address, *asked, "--format", "csv")))
    assert (row["items_appeared"], row["items_gone"], row["items_failed"]) == ("2", "1", "0")
    twins = shown(trainard, address, "--scenario", "twin", "--limit", "1").splitlines()
    assert twins[-1] == "Older runs were left out: --limit takes up to 1000."
    each = shown(trainard, address, "--scenario", "twin", "--from", "2027-01-01").splitlines()
    assert any(line.startswith("2027-01-02  twin (n2)") for line in each)
    assert [line.split("  ")[0] for line in each if line.endswith(("▁", "█"))] == [
        *("twin (n1)", "twin (n2)", "twin (n3)")
    ]


def test_what_cannot_be_asked_is_refused(trainard: Program, address: str) -> None:
    assert "give --scenario" in trainard("history", "--url", address).stderr
    refused = trainard("history", "--scenario", "one", "--window", "month", "--url", address)
    assert refused.returncode == 2
    assert "window" in refused.stderr
    missing = trainard("history", "--schedule", "nightly", "--url", address)
    assert missing.returncode == 1
    assert "nightly" in missing.stderr


def test_bars_are_heights_between_least_and_most() -> None:
    assert bars([0, 1, 2, 7]) == "▁▂▃█"
    assert bars([5.0, 5.0]) == "▁▁"
