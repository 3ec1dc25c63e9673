"""`trainard back-test` against a service on this machine."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from service.cli.child_service import running_service
from tests.cli.conftest import Program

# The oracle's barrier-003: 1 024 GPUs, cv 5 %
STEP = 458.72359402063756
SCENARIO: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("service")
    url = f"sqlite:///{folder / 'trainard.db'}"
    with running_service(url, port=0, log=folder / "service.log") as found:
        yield found


@pytest.fixture
def slug(address: str, request: pytest.FixtureRequest) -> str:
    """A profile of the test's own."""
    slug: str = request.node.name.replace("_", "-")[:60].rstrip("-")
    body = {"slug": slug, "name": slug, "gpu_type": "H100", "defaults": SCENARIO}
    answer = httpx.post(f"{address}/v1/cluster-profiles", json=body)
    assert answer.status_code == 201, answer.text
    return slug


def held(
    trainard: Program, address: str, slug: str, name: str, step_ms: float, *more: str
) -> subprocess.CompletedProcess[str]:
    run = ("--name", name, "--step-mean-ms", str(step_ms), "--num-steps", "20000")
    return trainard("back-test", slug, *run, "--step-sd-ms", "6", *more, "--url", address)


def test_a_run_that_agrees(trainard: Program, address: str, slug: str) -> None:
    shown = held(trainard, address, slug, "good", STEP, "--fail-if-parted")
    assert shown.returncode == 0, shown.stderr
    assert f"good against {slug}@1: agrees" in shown.stdout
    (line,) = [line for line in shown.stdout.splitlines() if line.startswith("mean step")]
    assert line.split()[-2:] == ["458.72", "458.72"]


def test_a_run_that_has_parted_fails_only_where_asked(
    trainard: Program, address: str, slug: str
) -> None:
    phases = ("--communication-ms", "130", "--observed-at", "2025-11-29T06:00:00Z")
    shown = held(trainard, address, slug, "bad", 500, *phases)
    assert shown.returncode == 0
    assert "parted" in shown.stdout
    assert "what explains it: communication" in shown.stdout
    judged = held(trainard, address, slug, "worse", 500, "--fail-if-parted", "--format", "json")
    assert judged.returncode == 3
    assert json.loads(judged.stdout)["verdict"] == "parted"


def test_nobody_can_tell(trainard: Program, address: str, slug: str) -> None:
    few = ("--num-steps", "1", "--step-sd-ms", "60")
    shown = held(trainard, address, slug, "short", 490, *few, "--fail-if-parted")
    assert shown.returncode == 6
    assert "cannot tell" in shown.stdout


def test_a_tolerance_of_its_own(trainard: Program, address: str, slug: str) -> None:
    shown = held(trainard, address, slug, "run", STEP * 1.03, "--tolerance", "0.02")
    assert ": parted" in shown.stdout
    assert "the tolerance is 2.0%" in shown.stdout


@pytest.mark.parametrize("profile", ["nobody", "a/../b"])
def test_a_profile_that_is_not_there_has_no_empty_list(
    trainard: Program, address: str, profile: str
) -> None:
    for question in ("--list", "--drift"):
        asked = trainard("back-test", profile, "--url", address, question)
        assert (asked.returncode, asked.stdout) == (1, "")
        assert f"there is no cluster profile '{profile}'" in asked.stderr


def test_the_list_and_the_drift(trainard: Program, address: str, slug: str) -> None:
    ask = ("back-test", slug, "--url", address)
    assert trainard(*ask, "--list").stdout == "There are no back-tests.\n"
    assert "no run has been held" in trainard(*ask, "--drift", "--fail-if-parted").stdout
    for day, factor in enumerate([1, 1.08, 1.09], start=1):
        moment = f"2025-11-{day:02}T00:00:00Z"
        held(trainard, address, slug, f"run {day}", STEP * factor, "--observed-at", moment)
    listed = trainard(*ask, "--list").stdout.splitlines()
    assert [line.split("run ")[1][0] for line in listed[2:]] == ["3", "2", "1"]
    assert "+9.00" in listed[2]
    shown = trainard(*ask, "--drift", "--fail-if-parted")
    assert shown.returncode == 3
    assert "since 'run 2' of 2025-11-02" in shown.stdout
    assert "What to do: calibrate anew" in shown.stdout
    found = json.loads(trainard(*ask, "--drift", "--format", "json").stdout)
    assert [run["run_name"] for run in found["runs"]] == ["run 1", "run 2", "run 3"]
    asked = trainard(*ask, "--list", "--format", "json", "--limit", "2").stdout
    assert len(json.loads(asked)["items"]) == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--step-mean-ms", "nan"), "'nan' is no finite number"),
        ((), "a run needs --name, --step-mean-ms, --num-steps; or name a --calibration"),
        (("--list", "--drift"), "--list and --drift stand alone"),
        (("--list", "--name", "x"), "--list and --drift stand alone"),
        (
            ("--calibration", "01a228d5-8419-71c9-b360-7d854e38e1c4", "--name", "x"),
            "a calibration has its own steps: name it alone",
        ),
    ],
)
def test_options_that_do_not_go_together(
    trainard: Program, options: tuple[str, ...], sentence: str
) -> None:
    refused = trainard("back-test", "prod", *options)
    assert refused.returncode == 2
    assert sentence in refused.stderr


def test_what_the_service_refuses(trainard: Program, address: str, slug: str) -> None:
    wanted = "01a228d5-8419-71c9-b360-7d854e38e1c4"
    absent = trainard("back-test", slug, "--calibration", wanted, "--url", address)
    assert absent.returncode == 1
    assert f"there is no calibration {wanted}" in absent.stderr
    faulty = held(trainard, address, "nobody", "x", 400)
    assert faulty.returncode == 2
    assert "there is no cluster profile 'nobody'" in faulty.stderr
