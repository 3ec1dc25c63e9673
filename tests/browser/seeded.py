"""What the pages show in tests: profiles, rates, ended batches, a schedule's runs and reports."""

import random
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from click.testing import CliRunner

from service.cli import key
from service.cli.http_client import open_client, read, submit_batch, wait_for_batch

Document = dict[str, Any]

# Of the founding page: 1 024 GPUs, of which one has 70 % of the speed
KNOWN_LOSS_GPU_HOURS: Final = 176_008
PROFILE: Final[Document] = {
    "slug": "prod-h100",
    "name": "Production H100, 1 024 GPUs",
    "gpu_type": "H100-SXM",
    "cost_center": "research",
    "tags": {"team": "language", "site": "par1"},
    "defaults": {
        "num_gpus": 1024,
        "load_ms": 30,
        "compute_ms": 300,
        "communication": {"kind": "fixed", "allreduce_ms": 80},
    },
}
# The same length of a step, more of it spent on communication
REVISED: Final[Document] = {
    **{name: value for name, value in PROFILE.items() if name != "slug"},
    "defaults": {**PROFILE["defaults"], "communication": {"kind": "fixed", "allreduce_ms": 100}},
}
SLOW: Final = [{"count": 1, "speed_fraction": 0.7}]
SIZES: Final = {"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 131072}}
SCHEDULE: Final[Document] = {
    "slug": "nightly",
    "name": "Nightly what-if",
    "cron": "0 2 * * *",
    "zone": "Europe/Paris",
    "batch": {
        "currency": "EUR",
        "items": [
            {
                "custom_id": "h100",
                "name": "one slow GPU",
                "profile": "prod-h100",
                "overrides": {"slow_groups": SLOW},
            }
        ],
    },
}
# Its first run knows revision 1 of the profile, its second one revision 2
SLOTS: Final = ("2024-06-01", "2024-06-02")
WITHIN_S: Final = 120.0


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """Where it is served, and the ids of what is there."""

    url: str
    #: `q1-sizing`: priced, 35 points, of which 5 without a rate
    sizing: str
    #: `q1-sizing-eviction`: the same names a month later, without the slow GPU, at another price
    eviction: str
    #: `with-faults`: one of its three points breaks a rule
    faulty: str
    #: runs of the schedule `nightly`, the older first, and their batches
    runs: tuple[str, str]
    run_batches: tuple[str, str]
    #: that of the second run, which compares it with the first
    report: str
    #: timings of `prod-h100` with a slow rank, which tested the profile too
    calibration: str
    back_test: str


@dataclass(frozen=True, kw_only=True)
class Closed:
    """The same behind keys, of one role each."""

    seeded: Seeded
    admin_key: str
    viewer_key: str


def seed(url: str) -> Seeded:
    """Put it all into an empty service."""
    with open_client(url) as client:
        _post(client, "/v1/cluster-profiles", PROFILE)
        _rates(client)
        sizing = _batch(client, _sizing("q1-sizing", SLOW, "2026-12-01"))
        eviction = _batch(client, _sizing("q1-sizing-eviction", [], "2027-01-01"))
        faulty = _batch(client, _faulty())
        _post(client, "/v1/schedules", SCHEDULE)
        first = _run(client, SLOTS[0])
        path = "/v1/cluster-profiles/prod-h100"
        etag = client.get(path).headers["ETag"]
        _post(client, f"{path}/revisions", REVISED, {"If-Match": etag})
        second = _run(client, SLOTS[1])
        calibration = _calibration(client)
        tests = read(client, "/v1/back-tests", calibration=calibration)["items"]
    return Seeded(
        url=url,
        sizing=sizing,
        eviction=eviction,
        faulty=faulty,
        runs=(first["id"], second["id"]),
        run_batches=(first["batch_id"], second["batch_id"]),
        report=second["report_id"],
        calibration=calibration,
        back_test=tests[0]["id"],
    )


def timings(*, num_steps: int = 24, num_ranks: int = 8, slow_rank: int = 3) -> str:
    """A table of which one rank has 70 % of the speed; communication is what is left of a step."""
    rng = random.Random(5)
    lines = ["step,rank,load_ms,compute_ms,communication_ms,step_ms"]
    for step in range(num_steps):
        alike = 300 * rng.gauss(1, 0.01)
        compute = [
            alike * rng.gauss(1, 0.006) / (0.7 if rank == slow_rank else 1)
            for rank in range(num_ranks)
        ]
        end = 30 + max(compute)
        lines += [
            f"{step},{rank},30,{own:.3f},{end - 30 - own + 60:.3f},{end + 62:.3f}"
            for rank, own in enumerate(compute)
        ]
    return "\n".join(lines)


def _calibration(client: httpx.Client) -> str:
    files = {"file": ("night.csv", timings(), "text/csv")}
    answer = client.post("/v1/calibrations", params={"profile": "prod-h100"}, files=files)
    assert answer.is_success, answer.text
    made: Document = answer.json()
    found: str = made["id"]
    return found


def closed_copy(database: Path, copied: Path) -> dict[str, str]:
    """Copy the database of a running service, and put keys into the copy."""
    for suffix in ("", "-jobs"):
        source = database.with_name(f"{database.stem}{suffix}.db")
        target = copied.with_name(f"{copied.stem}{suffix}.db")
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
    return {f"{role}_key": _key(copied, role) for role in ("admin", "viewer")}


def _key(database: Path, role: str) -> str:
    arguments = ["create", "--role", role, "--name", f"the {role}"]
    made = CliRunner().invoke(key.command, [*arguments, "--database-url", f"sqlite:///{database}"])
    found = re.search(r"trn_\S+", made.output)
    assert found is not None, made.output
    return found[0]


def _rates(client: httpx.Client) -> None:
    for amount, valid_from, valid_until in (
        ("2.10", "2020-01-01", "2027-01-01"),
        ("2.30", "2027-01-01", None),
    ):
        body = {
            "gpu_type": "H100-SXM",
            "cost_center": None,
            "price_per_gpu_hour": {"amount": amount, "currency": "EUR"},
            "valid_from": valid_from,
            "valid_until": valid_until,
            "source": "finance memo 2026-09",
        }
        _post(client, "/v1/gpu-hour-rates", body)


def _sizing(name: str, slow: list[Document], start_on: str) -> Document:
    h100 = {"profile": "prod-h100", "overrides": {"slow_groups": slow}, "axes": [SIZES]}
    return {
        "name": name,
        "start_on": start_on,
        "currency": "EUR",
        "metadata": {"ticket": "CAP-12"},
        "items": [
            {"custom_id": "h100", "name": "one slow GPU", **h100},
            {
                "custom_id": "h100-varying",
                "name": "steps that vary",
                **h100,
                "overrides": {
                    "slow_groups": slow,
                    "variability.transient": {"kind": "normal", "cv": 0.05},
                },
            },
            {
                "custom_id": "no-rate",
                "name": "a cluster without a rate",
                "scenario": {**PROFILE["defaults"], "slow_groups": slow},
                "axes": [{"path": "num_gpus", "values": [16, 64, 256, 1024, 4096]}],
            },
        ],
    }


def _faulty() -> Document:
    return {
        "name": "with-faults",
        "items": [
            {
                "custom_id": "too-many-slow",
                "scenario": {
                    **PROFILE["defaults"],
                    "slow_groups": [{"count": 70, "speed_fraction": 0.7}],
                },
                "axes": [{"path": "num_gpus", "values": [64, 128, 256]}],
            }
        ],
    }


def _post(
    client: httpx.Client, path: str, body: Document, headers: dict[str, str] | None = None
) -> Document:
    answer = client.post(path, json=body, headers=headers)
    assert answer.is_success, answer.text
    made: Document = answer.json()
    return made


def _batch(client: httpx.Client, body: Document) -> str:
    batch = wait_for_batch(client, submit_batch(client, body, salt="seeded"), lambda _: None)
    assert batch["points_done"] > 0, batch
    batch_id: str = batch["id"]
    return batch_id


def _run(client: httpx.Client, day: str) -> Document:
    """The run of the schedule's slot of that day, ended and reported on."""
    path = "/v1/schedules/nightly"
    made = _post(client, f"{path}/backfills", {"first_on": day, "last_on": day})
    (run,) = read(client, f"{path}/runs", backfill=made["id"])["items"]
    return _awaited(lambda: read(client, f"{path}/runs/{run['id']}"))


def _awaited(ask: Callable[[], Document]) -> Document:
    deadline = time.monotonic() + WITHIN_S
    while (found := ask())["state"] != "succeeded":
        assert found["state"] != "failed", found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    assert found["report_id"], found
    return found
