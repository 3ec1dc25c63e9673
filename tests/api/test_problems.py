import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from litestar import Litestar, get
from litestar.exceptions import HTTPException
from litestar.testing import TestClient

import service
from service import errors
from service.api.problem_types import PROBLEM_TYPES
from service.app import create_app
from service.db.engine import Database, OperationalError
from service.errors import FieldFault, TrainardError
from service.settings import Settings
from tests.api.access_keys import key_of
from tests.full_disks import full_disk
from tests.jobs.batch_bodies import SEED

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
SERVICE = Path(service.__file__).parent

STATUSES = {
    errors.MalformedError: 400,
    errors.NotFoundError: 404,
    errors.ConflictError: 409,
    errors.PreconditionFailedError: 412,
    errors.TooLargeError: 413,
    errors.UnsupportedMediaError: 415,
    errors.InvalidError: 422,
    errors.PreconditionRequiredError: 428,
    errors.UnavailableError: 503,
}


def failing_client(app: Litestar, error: Exception) -> Client:
    @get("/failing")
    async def fail() -> str:
        raise error

    app.register(fail)
    return TestClient(app, base_url="http://127.0.0.1")


@pytest.mark.parametrize(("kind", "status"), STATUSES.items())
def test_each_error_of_ours_has_its_status(
    app: Litestar, problem_of: ProblemOf, kind: type[TrainardError], status: int
) -> None:
    fault = FieldFault(pointer="/a/0", code="wrong", detail="5 is wrong")
    with failing_client(app, kind("the sentence", errors=[fault])) as client:
        answer = client.get("/failing")
    found = problem_of(answer, kind.problem)
    assert answer.status_code == status
    assert found["detail"] == "the sentence"
    assert found["instance"] == "/failing"
    assert found["errors"] == [{"pointer": "/a/0", "code": "wrong", "detail": "5 is wrong"}]
    assert ("retry-after" in answer.headers) == (status == 503)


def test_an_error_of_its_own_kind_keeps_it(app: Litestar, problem_of: ProblemOf) -> None:
    with failing_client(app, errors.ConflictError("x", problem="batch-not-finished")) as client:
        answer = client.get("/failing")
    problem_of(answer, "batch-not-finished")
    assert answer.headers["retry-after"] == "5"


def test_an_unlisted_kind_is_that_of_its_class(app: Litestar, problem_of: ProblemOf) -> None:
    with failing_client(app, errors.ConflictError("x", problem="unheard-of")) as client:
        problem_of(client.get("/failing"), "conflict")


def test_a_defect_shows_nothing_and_logs_all(
    app: Litestar, problem_of: ProblemOf, capsys: pytest.CaptureFixture[str]
) -> None:
    with failing_client(app, RuntimeError("SELECT secret FROM price")) as client:
        answer = client.get("/failing", headers={"x-request-id": "defect-0001"})
    problem_of(answer, "internal-error")
    assert b"secret" not in answer.content
    assert b"RuntimeError" not in answer.content
    logged = capsys.readouterr().err
    (line,) = [line for line in logged.splitlines() if "request_failed" in line]
    assert "SELECT secret FROM price" in line
    assert "Traceback" in line
    assert "defect-0001" in line


def test_a_database_that_is_away_is_a_503(app: Litestar, problem_of: ProblemOf) -> None:
    gone = OperationalError("SELECT 1", {}, Exception("connection refused"))
    with failing_client(app, gone) as client:
        answer = client.get("/failing")
    found = problem_of(answer, "unavailable")
    assert found["detail"] == "the database does not answer"
    assert answer.headers["retry-after"]


def test_a_full_disk_is_named_and_logged_in_a_line(
    database: Database, problem_of: ProblemOf, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = {"slug": "a", "name": "a", "gpu_type": "H100", "defaults": SEED}
    key = key_of(database, "admin")
    app = create_app(Settings(), database)
    with full_disk(database), TestClient(app, base_url="http://127.0.0.1") as client:
        refused = client.post("/v1/cluster-profiles", json=profile, headers=key)
        money = client.get("/v1/gpu-hour-rates", headers=key)
        read = client.get("/v1/cluster-profiles", headers=key)
    assert problem_of(refused, "unavailable")["detail"] == "the database's disk is full"
    assert refused.headers["retry-after"]
    # What cannot be recorded is not shown.
    assert problem_of(money, "unavailable")["detail"] == (
        "this is recorded in the audit trail, which cannot be written now: "
        "the database's disk is full"
    )
    assert (read.status_code, read.json()["items"]) == (200, [])
    logged = capsys.readouterr().err
    assert "Traceback" not in logged
    for event in ("request_failed", "audit_failed"):
        (line,) = [line for line in logged.splitlines() if event in line]
        said = json.loads(line)
        assert said["level"] == "warning"
        reason = "database or disk is full" if database.is_sqlite else "no space left on device"
        assert reason in said["reason"]
    structlog.reset_defaults()


def test_another_http_error_is_a_problem_too(app: Litestar, problem_of: ProblemOf) -> None:
    with failing_client(app, HTTPException(detail="no tea", status_code=418)) as client:
        answer = client.get("/failing")
    assert problem_of_status(answer) == 400
    assert problem_of(answer, "client-error")["detail"] == "no tea"


def problem_of_status(answer: httpx.Response) -> int:
    return answer.status_code


def test_an_unknown_route_is_a_problem(shared_client: Client, problem_of: ProblemOf) -> None:
    found = problem_of(shared_client.get("/v1/nothing/here"), "unknown-route")
    assert "/v1/nothing/here" in found["detail"]


def test_each_kind_of_problem_is_explained(shared_client: Client) -> None:
    index = shared_client.get("/problems").text
    for kind in PROBLEM_TYPES.values():
        assert f'href="{kind.uri}"' in index
        page = shared_client.get(kind.uri)
        assert page.headers["content-type"].startswith("text/html")
        assert str(kind.status) in page.text


def test_an_unknown_kind_is_not_found(shared_client: Client, problem_of: ProblemOf) -> None:
    problem_of(shared_client.get("/problems/unheard-of"), "not-found")


def test_every_kind_that_the_code_names_is_listed() -> None:
    named = {
        keyword.value.value
        for path in SERVICE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "problem" and isinstance(keyword.value, ast.Constant)
    }
    assert named
    assert named <= set(PROBLEM_TYPES)


def test_the_fallback_of_each_class_is_listed() -> None:
    for kind, status in STATUSES.items():
        assert PROBLEM_TYPES[kind.problem].status == status
