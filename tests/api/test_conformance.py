"""schemathesis calls every operation by the document, over real HTTP, with a key of each role.

No 5xx, no undeclared status, header or media type; every answer as its schema says; what the
schema forbids is refused; a wrong method is a 405 with Allow.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from service.api.examples import BATCH_EXAMPLES
from service.cli.child_service import running_service
from service.db.engine import Database
from service.jobs.scopes import ROLES, Role
from tests.api.access_keys import key_of

SEED = 1
MAX_EXAMPLES = 8
TIMEOUT_S = 600
FINISHED_WITHIN_S = 60

CONFIGURATION = """
# Rules across fields, opaque page tokens and versions cannot be said in a schema: a valid document
# may be refused. That the documented examples are accepted is tested beside.
[checks.positive_data_acceptance]
enabled = false

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 428, 431]

[checks.missing_required_header]
expected-statuses = [400, 401, 403, 428, 431]
"""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service over a database of its own, and the header of a key of each role."""

    address: str
    keys: dict[Role, dict[str, str]]


@pytest.fixture
def service(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Service]:
    monkeypatch.setenv("TRAINARD_MAX_REQUESTS_PER_MINUTE", "0")
    keys = {role: key_of(sqlite_database, role) for role in ROLES}
    url = f"sqlite:///{sqlite_database.url.database}"
    with running_service(url, port=0, log=tmp_path / "service.log") as address:
        yield Service(address=address, keys=keys)


def finished_batches(service: Service) -> list[str]:
    """Post the documented batches and wait for their ends; their ids."""
    with httpx.Client(base_url=service.address, headers=service.keys["planner"]) as client:
        ids: list[str] = []
        for example in BATCH_EXAMPLES.values():
            answer = client.post("/v1/scenario-batches", json=example)
            assert answer.status_code == 202, answer.text
            ids.append(answer.json()["id"])
        deadline = time.monotonic() + FINISHED_WITHIN_S
        for batch_id in ids:
            while client.get(f"/v1/scenario-batches/{batch_id}").json()["state"] != "succeeded":
                assert time.monotonic() < deadline
                time.sleep(0.1)
    return ids


def canceled_batch(service: Service) -> str:
    """A batch of which something is left to compute; its id."""
    example = next(iter(BATCH_EXAMPLES.values()))
    grid = {
        "path": "slow_groups.0.speed_fraction",
        "logspace": {"start": 0.4, "stop": 0.9, "num": 200_000},
    }
    items = [{**item, "axes": [grid], "headline": None} for item in example["items"]]
    with httpx.Client(base_url=service.address, headers=service.keys["planner"]) as client:
        answer = client.post("/v1/scenario-batches", json={**example, "items": items})
        assert answer.status_code == 202, answer.text
        url = f"/v1/scenario-batches/{answer.json()['id']}"
        assert client.post(f"{url}/cancellation").status_code == 202
        deadline = time.monotonic() + FINISHED_WITHIN_S
        while client.get(url).json()["state"] != "canceled":
            assert time.monotonic() < deadline
            time.sleep(0.1)
    batch_id: str = answer.json()["id"]
    return batch_id


def conform(
    service: Service, role: Role, folder: Path, configuration: str, *arguments: str
) -> None:
    """Run schemathesis; its report is the assertion's message."""
    file = folder / "schemathesis.toml"
    file.write_text(configuration)
    run = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            *("--config-file", str(file), "run", f"{service.address}/openapi.json"),
            *("--header", f"Authorization: {service.keys[role]['Authorization']}"),
            *("--seed", str(SEED), "--max-examples", str(MAX_EXAMPLES)),
            *("--generation-database", "none", "--no-color", *arguments),
        ],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert run.returncode == 0, run.stdout[-30_000:] + run.stderr[-2_000:]


def test_every_operation_keeps_its_promises(service: Service, tmp_path: Path) -> None:
    phases = ("--phases", "examples,coverage,fuzzing,stateful")
    conform(service, "admin", tmp_path, CONFIGURATION, *phases)


@pytest.mark.parametrize("role", ["viewer", "planner", "finance"])
def test_every_operation_keeps_its_promises_to_lesser_roles(
    service: Service, role: Role, tmp_path: Path
) -> None:
    conform(service, role, tmp_path, CONFIGURATION, "--phases", "examples,fuzzing")


def test_operations_on_stored_results_keep_their_promises(service: Service, tmp_path: Path) -> None:
    """With ids that exist: random ones are answered 404 before anything is read."""
    baseline, candidate = finished_batches(service)
    parameters = f"""
[parameters]
"path.batch_id" = "{baseline}"
"path.result_id" = "{baseline}.3"
"query.batch" = "{baseline}"
"query.baseline" = "{baseline}"
"query.candidate" = "{candidate}"
"""
    conform(
        service,
        "finance",
        tmp_path,
        parameters + CONFIGURATION,
        *("--phases", "coverage,fuzzing"),
        *("--include-path-regex", "batches/|results|compar|export|history"),
    )


def test_batches_that_are_waited_for_and_retried_keep_their_promises(
    service: Service, tmp_path: Path
) -> None:
    parameters = f"""
[parameters]
"path.batch_id" = "{canceled_batch(service)}"
"header.Prefer" = "wait=1"
"""
    conform(
        service,
        "planner",
        tmp_path,
        parameters + CONFIGURATION,
        *("--phases", "examples,coverage,fuzzing"),
        *("--include-path-regex", "scenario-batches$|/(retries|events|errors|cancellation)$"),
    )
