"""schemathesis calls every operation by the document, over real HTTP, with a key of each role.

No 5xx, no undeclared status, header or media type; every answer as its schema says; what the
schema forbids is refused; a wrong method is a 405 with Allow.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from service.api.examples import BATCH_EXAMPLES
from service.api.schedules import SCHEDULE_EXAMPLES
from service.cli.child_service import running_service
from service.db.engine import Database
from service.jobs.scopes import ROLES, Role
from tests.api.access_keys import key_of

SEED = 1
MAX_EXAMPLES = 3
# What a viewer may not do is refused before it is read.
MAX_EXAMPLES_OF_VIEWERS = 1
TIMEOUT_S = 900
REQUEST_TIMEOUT_S = 60
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

# Of what is sent as a body these have the boundary values of every field; with the scenario's it
# would take a minute more (all were answered as promised when that was tried): its bounds are in
# test_bounds.py and the tests of the model, and every operation is fuzzed.
# Two conditions of one entry are joined by OR: method and path are one condition, on the name.
[[operations]]
include-name-regex = "^P[A-Z]+ /v1/(?!(overlap-audits|coarse-calibrations|back-tests)$)"

[operations.phases.coverage]
enabled = false

# Each upload is read by a process of its own, which takes seconds; forms that are none, and
# parameters, are in test_uploads.py and test_calibrations.py.
[[operations]]
include-name-regex = "^POST /v1/(calibrations|overlap-audits/files)$"

[operations.phases.coverage]
enabled = false

[operations.phases.fuzzing]
enabled = false

[operations.phases.stateful]
enabled = false
"""

# Read with ids that exist below, where their parameters have the boundary values too; with random
# ids a 404 is all that there is, and the fuzzing has it.
OF_ADMINS = (
    CONFIGURATION
    + """
[[operations]]
include-name-regex = "^GET /v1/(scenario-batches/|schedules/|reports/|results|comp|export|loss-his)"

[operations.phases.coverage]
enabled = false
"""
)


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service over a database of its own, and the header of a key of each role."""

    address: str
    keys: dict[Role, dict[str, str]]


@contextmanager
def serving(template: Path, folder: Path) -> Iterator[Service]:
    path = folder / "trainard.db"
    shutil.copyfile(template, path)
    url = f"sqlite:///{path}"
    database = Database(url)
    keys = {role: key_of(database, role) for role in ROLES}
    database.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINARD_MAX_REQUESTS_PER_MINUTE", "0")
        patch.setenv("TRAINARD_COMPUTE_PROCESSES", "1")
        with running_service(url, port=0, log=folder / "service.log") as address:
            yield Service(address=address, keys=keys)


@pytest.fixture
def own_service(sqlite_template: Path, tmp_path: Path) -> Iterator[Service]:
    """For an administrator, who may revoke keys and delete everything."""
    with serving(sqlite_template, tmp_path) as service:
        yield service


@pytest.fixture(scope="module")
def service(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """For all others, who can only add to it."""
    with serving(sqlite_template, tmp_path_factory.mktemp("conformance")) as service:
        yield service


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
    """A batch of which something is left to compute; its id.

    Every retry computes it: of two chunks the second is still to come when it is canceled.
    """
    example = next(iter(BATCH_EXAMPLES.values()))
    grid = {
        "path": "slow_groups.0.speed_fraction",
        "logspace": {"start": 0.4, "stop": 0.9, "num": 60_000},
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
    service: Service,
    role: Role,
    folder: Path,
    configuration: str,
    *arguments: str,
    max_examples: int = MAX_EXAMPLES,
) -> None:
    """Run schemathesis; its report is the assertion's message."""
    file = folder / "schemathesis.toml"
    file.write_text(configuration)
    run = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            *("--config-file", str(file), "run", f"{service.address}/openapi.json"),
            *("--header", f"Authorization: {service.keys[role]['Authorization']}"),
            *("--seed", str(SEED), "--max-examples", str(max_examples)),
            # Other tests compute beside: an answer that waits for the processor is no failure.
            *("--request-timeout", str(REQUEST_TIMEOUT_S)),
            *("--generation-database", "none", "--no-color", *arguments),
        ],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert run.returncode == 0, run.stdout[-30_000:] + run.stderr[-2_000:]


def test_every_operation_keeps_its_promises(own_service: Service, tmp_path: Path) -> None:
    phases = ("--phases", "examples,coverage,fuzzing,stateful")
    conform(own_service, "admin", tmp_path, OF_ADMINS, *phases)


def test_every_operation_keeps_its_promises_to_a_viewer(service: Service, tmp_path: Path) -> None:
    """Planners and finance call below what they may do; test_access.py has all roles."""
    conform(
        service,
        "viewer",
        tmp_path,
        CONFIGURATION,
        *("--phases", "fuzzing"),
        max_examples=MAX_EXAMPLES_OF_VIEWERS,
    )


def test_operations_on_stored_results_keep_their_promises(service: Service, tmp_path: Path) -> None:
    """With ids that exist: random ones are answered 404 before anything is read."""
    baseline, candidate, *_ = finished_batches(service)
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
        max_examples=2,
    )


def test_schedules_that_are_there_keep_their_promises(service: Service, tmp_path: Path) -> None:
    """All but its own deletion, which would leave nothing to ask about."""
    example = next(iter(SCHEDULE_EXAMPLES.values()))
    with httpx.Client(base_url=service.address, headers=service.keys["planner"]) as client:
        made = client.post("/v1/schedules", json={**example, "slug": "conforming"})
        assert made.status_code == 201, made.text
    parameters = """
[parameters]
"path.schedule" = "conforming"
"""
    conform(
        service,
        "planner",
        tmp_path,
        parameters + CONFIGURATION,
        *("--phases", "examples,coverage,fuzzing"),
        *("--include-path-regex", "schedules"),
        *("--exclude-operation-id", "delete_schedule"),
    )


def finished_report(service: Service) -> str:
    """Have a report made of the documented batches; its id."""
    baseline, batch, *_ = finished_batches(service)
    with httpx.Client(base_url=service.address, headers=service.keys["finance"]) as client:
        body = {"batch_id": batch, "baseline_batch_id": baseline, "report": {"remedies": False}}
        answer = client.post("/v1/reports", json=body)
        assert answer.status_code == 202, answer.text
        deadline = time.monotonic() + FINISHED_WITHIN_S
        while client.get(answer.headers["location"]).json()["state"] != "succeeded":
            assert time.monotonic() < deadline
            time.sleep(0.1)
    report_id: str = answer.json()["id"]
    return report_id


def test_reports_that_are_there_keep_their_promises(service: Service, tmp_path: Path) -> None:
    """All but its own deletion, which would leave nothing to ask about."""
    parameters = f"""
[parameters]
"path.report_id" = "{finished_report(service)}"
"""
    conform(
        service,
        "finance",
        tmp_path,
        parameters + CONFIGURATION,
        *("--phases", "examples,coverage,fuzzing"),
        *("--include-path-regex", "/v1/reports"),
        *("--exclude-operation-id", "delete_report"),
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
        *("--phases", "coverage,fuzzing"),
        *("--include-path-regex", "scenario-batches$|/(retries|events|errors|cancellation)$"),
        max_examples=2,
    )
