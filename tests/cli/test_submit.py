"""Posting batches from the command line to a real service, as a person does."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.cli.child_service import running_service
from tests.cli.conftest import TIMEOUT_S, Program, Start, environment
from tests.cli.test_serve import ready_port
from tests.jobs.batch_bodies import SEED, SIZES, item, speeds

BATCH: dict[str, Any] = {"name": "sizing", "items": [item(axes=[SIZES])]}
# Minutes of work for two cores.
LONG: dict[str, Any] = {
    "name": "long",
    "reuse": False,
    "items": [
        item(
            scenario={**SEED, "variability": {"transient": {"kind": "normal", "cv": 0.05}}},
            axes=[speeds(4_999_999)],
        )
    ],
}
ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One service for all tests of this file."""
    folder = tmp_path_factory.mktemp("service")
    with running_service(
        f"sqlite:///{folder / 'trainard.db'}", port=0, log=folder / "service.log"
    ) as found:
        yield found


def write(folder: Path, body: Any) -> str:
    path = folder / "batch.json"
    path.write_text(json.dumps(body))
    return str(path)


def state_of(address: str, batch_id: str) -> str:
    found: str = httpx.get(f"{address}/v1/scenario-batches/{batch_id}").json()["state"]
    return found


def id_in(text: str) -> str:
    found = re.search(rf"Batch ({ID}) ", text)
    assert found is not None, text
    return found[1]


def cancel_all(address: str) -> None:
    for state in ("queued", "running"):
        listed = httpx.get(f"{address}/v1/scenario-batches", params={"state": state}).json()
        for batch in listed["items"]:
            httpx.post(f"{address}/v1/scenario-batches/{batch['id']}/cancellation")


def test_waiting_prints_what_is_lost(trainard: Program, address: str, tmp_path: Path) -> None:
    done = trainard("submit", write(tmp_path, BATCH), "--url", address, "--wait")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    batch_id = id_in(done.stdout)
    assert f"Batch {batch_id} (sizing): succeeded, 15 of 15 points" in done.stdout
    assert f"{address}/v1/scenario-batches/{batch_id}/events" in done.stdout
    lines = done.stdout.splitlines()
    assert "num_gpus  step [ms]  efficiency [%]  lost [GPU-hours]" in lines
    assert "   1 024     538.57           76.13           176 008" in lines


def test_without_waiting_it_says_where_to_look(
    trainard: Program, address: str, tmp_path: Path
) -> None:
    body = {**BATCH, "name": "later"}
    done = trainard("submit", "-", "--url", address, stdin=json.dumps(body))
    assert done.returncode == 0, done.stderr
    (place,) = re.findall(r"state: +(\S+)", done.stdout)
    assert httpx.get(place).json()["name"] == "later"
    repeated = trainard("submit", write(tmp_path, body), "--url", address, "--wait")
    assert "Takes over the results of" in repeated.stdout


def test_a_program_reads_json(trainard: Program, address: str, tmp_path: Path) -> None:
    options = ("--url", address, "--format", "json")
    done = trainard("submit", write(tmp_path, BATCH), *options, "--priority", "2", "--wait")
    found = json.loads(done.stdout)
    assert (done.returncode, found["state"], found["priority"]) == (0, "succeeded", 2)
    assert len(found["results"]["items"]) == 15
    key = ("--idempotency-key", "k-1", "--deadline", "2099-01-01T00:00:00Z")
    first, second = (
        json.loads(trainard("submit", write(tmp_path, BATCH), *options, *key).stdout)
        for _ in range(2)
    )
    assert first["id"] == second["id"] != found["id"]
    assert first["deadline_at"] == "2099-01-01T00:00:00Z"


def test_checking_stores_nothing(trainard: Program, address: str, tmp_path: Path) -> None:
    before = _newest(address)
    path = write(tmp_path, BATCH)
    plan = trainard("submit", path, "--url", address, "--validate-only")
    assert plan.returncode == 0
    assert plan.stdout.startswith("Valid: 1 item, 15 points, about 0.1 s; nothing was stored\n")
    as_json = trainard("submit", path, "--url", address, "--validate-only", "--format", "json")
    assert json.loads(as_json.stdout)["points_total"] == 15
    assert _newest(address) == before


def _newest(address: str) -> list[str]:
    """Its id; it may be computed meanwhile."""
    items = httpx.get(f"{address}/v1/scenario-batches").json()["items"]
    return [item["id"] for item in items[:1]]


def test_partly_failed_is_code_3(trainard: Program, address: str, tmp_path: Path) -> None:
    slow = {**SEED, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]}
    body = {"name": "x", "items": [item(scenario=slow, axes=[SIZES])]}
    done = trainard("submit", write(tmp_path, body), "--url", address, "--wait")
    assert done.returncode == 3
    assert "partially_failed, 15 of 15 points, 4 of them failed" in done.stdout
    assert "point 3 of one-slow failed: 70 slow GPUs, but num_gpus is 64" in done.stdout


def test_an_expired_batch_is_code_4(trainard: Program, address: str, tmp_path: Path) -> None:
    body = {
        **LONG,
        "deadline_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3)),
    }
    done = trainard("submit", write(tmp_path, body), "--url", address, "--wait")
    assert done.returncode == 4, done.stdout
    assert f"Batch {id_in(done.stdout)} (long): expired" in done.stdout


def test_canceled_is_code_4_and_what_is_left_is_retried(
    trainard: Program, start: Start, address: str, tmp_path: Path
) -> None:
    waiting = start("submit", write(tmp_path, LONG), "--url", address, "--wait")
    batch_id = first_id(waiting)
    stopped = trainard("cancel", batch_id, "--url", address)
    assert stopped.returncode == 0, stopped.stderr
    assert f"Batch {batch_id} (long): cancel" in stopped.stdout
    assert waiting.wait(TIMEOUT_S) == 4
    assert state_of(address, batch_id) == "canceled"
    too_late = trainard("cancel", id_of_ended(address), "--url", address)
    assert too_late.returncode == 1
    assert "has already ended" in too_late.stderr
    again = trainard("retry", batch_id, "--url", address, "--priority", "1")
    assert again.returncode == 0, again.stderr
    assert f"Computes what {batch_id} has left" in again.stdout
    cancel_all(address)
    nothing = trainard("retry", id_of_ended(address), "--url", address, "--wait")
    assert nothing.returncode == 1
    assert "all of its" in nothing.stderr


def first_id(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return id_in(process.stdout.readline())


def id_of_ended(address: str) -> str:
    headers = {"Prefer": "wait=60"}
    made = httpx.post(
        f"{address}/v1/scenario-batches", json=BATCH, headers=headers, timeout=TIMEOUT_S
    )
    assert made.status_code == 200
    found: str = made.json()["id"]
    return found


def test_an_interrupt_leaves_the_batch_running(address: str, tmp_path: Path) -> None:
    arguments = ("submit", write(tmp_path, LONG), "--url", address, "--wait")
    process = subprocess.Popen(
        [sys.executable, "-m", "service", *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A background job of a shell ignores it, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    batch_id = first_id(process)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert f"Batch {batch_id} goes on" in said
    assert f"trainard cancel {batch_id} --url {address}" in said
    assert "Traceback" not in said
    assert state_of(address, batch_id) in {"queued", "running"}
    cancel_all(address)


def test_a_terminal_shows_a_progress_bar(address: str, tmp_path: Path) -> None:
    body = {"name": "x", "items": [item(custom_id="bar", axes=[speeds(400_000)])]}
    arguments = ("submit", write(tmp_path, body), "--url", address, "--wait")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "service", *arguments],
        env={**environment(), "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    shown = everything(ours)
    said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert "/400000 points" in shown
    assert "running" in shown
    assert "The 50 points that lose most" in said


def everything(terminal: int) -> str:
    """What is written until the other side is closed; Linux says that by an error."""
    parts = []
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()


def test_a_service_that_restarts_is_followed_to_the_end(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    serve = ("serve", "--port", port, "--database-url", "sqlite:///served.db")
    first = start(*serve)
    assert ready_port(first) == int(port)
    body = {
        "name": "some seconds",
        "items": [item(scenario=LONG["items"][0]["scenario"], axes=[speeds(250_000)])],
    }
    url = f"http://127.0.0.1:{port}"
    waiting = start("submit", write(tmp_path, body), "--url", url, "--wait")
    batch_id = first_id(waiting)
    while state_of(url, batch_id) == "queued":
        time.sleep(0.1)
    first.kill()
    first.wait()
    second = start(*serve)
    ready_port(second)
    assert state_of(url, batch_id) == "running"
    assert waiting.wait(TIMEOUT_S) == 0
    assert waiting.stdout is not None
    assert f"Batch {batch_id} (some seconds): succeeded" in waiting.stdout.read()


def test_faults_are_named_with_their_places(
    trainard: Program, address: str, tmp_path: Path
) -> None:
    body = {"name": "x", "items": [item(overrides={"compute_ms": 0, "colour": 1})]}
    path = write(tmp_path, body)
    done = trainard("submit", path, "--url", address, "--wait")
    assert done.returncode == 2
    assert done.stderr.startswith(f"{path} has 2 faults, nothing was done:\n")
    assert "  /items/0/overrides/compute_ms: " in done.stderr
    broken = trainard("submit", "-", "--url", address, stdin="{")
    assert broken.returncode == 2
    assert "this is no JSON" in broken.stderr
    late = trainard("submit", path, "--url", address, "--deadline", "2026-01-01T00:00:00Z")
    assert "/deadline_at: " in late.stderr


def test_a_service_that_is_not_there_is_one_sentence(trainard: Program, tmp_path: Path) -> None:
    path = write(tmp_path, BATCH)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = trainard("submit", path, "--url", f"http://127.0.0.1:{port}")
    assert done.returncode == 1
    assert "trainard serve" in done.stderr
    assert "Traceback" not in done.stderr
    odd = trainard("submit", path, "--url", "service")
    assert (odd.returncode, "is no address" in odd.stderr) == (1, True)


@pytest.mark.parametrize("deadline", ["tomorrow", "2099-01-01T00:00:00"])
def test_a_deadline_needs_its_zone(trainard: Program, tmp_path: Path, deadline: str) -> None:
    done = trainard("submit", write(tmp_path, BATCH), "--deadline", deadline)
    assert done.returncode == 2
    assert "--deadline" in done.stderr
