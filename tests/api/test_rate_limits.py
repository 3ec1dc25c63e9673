"""Requests of a key in a minute over HTTP, and the header fields that say what is left."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import httpx
import pytest
import structlog
from litestar import Litestar
from litestar.testing import TestClient

from service.api.rate_limits import RequestRates, limit_fields
from service.app import create_app
from service.db.engine import Database
from service.errors import OverLimitError
from service.jobs.actors import Actor
from service.settings import Limits, Settings
from tests.api.access_keys import key_of
from tests.api.conftest import BASE_URL
from tests.full_disks import full_disk
from tests.jobs.batch_bodies import item, speeds

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
NOW = datetime(2026, 11, 29, 12, 0, 20, tzinfo=UTC)
LIMIT = 7


@pytest.fixture
def limits() -> Limits:
    return Limits(requests_per_minute=LIMIT, points_per_hour=100)


@pytest.fixture
def frozen(client: Client) -> Client:
    """A service whose minute does not end."""
    freeze(client)
    return client


def freeze(client: Client, now: datetime = NOW) -> None:
    client.app.state.gate._rates._clock = lambda: now


def body(num_points: int) -> dict[str, Any]:
    return {"name": "x", "items": [item(axes=[speeds(num_points)])]}


def test_a_key_gets_its_requests_and_then_429(
    frozen: Client, sqlite_database: Database, problem_of: ProblemOf
) -> None:
    key = key_of(sqlite_database, "viewer")
    answers = [frozen.get("/v1/meta", headers=key) for _ in range(LIMIT + 2)]
    assert [answer.status_code for answer in answers] == [*[200] * LIMIT, 429, 429]
    assert [answer.headers["ratelimit"] for answer in answers] == [
        f'"requests";r={left};t=40' for left in [*reversed(range(LIMIT)), 0, 0]
    ]
    refused = problem_of(answers[-1], "too-many-requests")
    assert answers[-1].headers["retry-after"] == "40"
    assert refused["detail"].startswith("7 requests a minute are answered to viewer of a test [")
    # Others have their own, and the next minute is a new one.
    other = key_of(sqlite_database, "viewer")
    assert frozen.get("/v1/meta", headers=other).status_code == 200
    freeze(frozen, NOW + timedelta(seconds=40))
    answer = frozen.get("/v1/meta", headers=key)
    assert (answer.status_code, answer.headers["ratelimit"]) == (200, '"requests";r=6;t=60')


def test_the_fields_are_on_every_answer_to_a_known_caller(
    frozen: Client, sqlite_database: Database
) -> None:
    key = key_of(sqlite_database, "viewer")
    calls: list[tuple[int, str, str, dict[str, Any]]] = [
        (200, "GET", "/v1/meta", {}),
        (200, "HEAD", "/v1/meta", {}),
        (400, "GET", "/v1/meta?x=1", {}),
        (403, "POST", "/v1/scenario-batches", {"json": body(1)}),
        (404, "GET", "/v1/cluster-profiles/none", {}),
        (415, "POST", "/v1/evaluations", {"content": b"x"}),
        (422, "POST", "/v1/evaluations", {"json": {}}),
        (429, "GET", "/v1/meta", {}),
    ]
    for number, (status, method, path, more) in enumerate(calls, start=1):
        answer = frozen.request(method, path, headers=key, **more)
        assert (method, path, answer.status_code) == (method, path, status)
        assert answer.headers["ratelimit-policy"] == (
            '"requests";q=7;w=60, "points";q=100;qu="points";w=3600'
        )
        assert answer.headers["ratelimit"] == f'"requests";r={max(0, LIMIT - number)};t=40'


def test_nothing_is_said_to_whom_nobody_knows(frozen: Client, sqlite_database: Database) -> None:
    key_of(sqlite_database, "viewer")
    freeze(frozen)
    for path, status in [("/v1/meta", 401), ("/healthz", 200), ("/nope", 404)]:
        answer = frozen.get(path)
        assert answer.status_code == status
        assert not [name for name in answer.headers if name.startswith("ratelimit")]


def test_an_open_service_has_no_limits(frozen: Client) -> None:
    for _ in range(LIMIT + 3):
        answer = frozen.get("/v1/meta")
        assert answer.status_code == 200
        assert "ratelimit" not in answer.headers
    posted = frozen.post("/v1/scenario-batches", json=body(101))
    assert posted.status_code == 202


@pytest.mark.parametrize(
    ("limits", "policy"),
    [
        (Limits(requests_per_minute=0, points_per_hour=0), None),
        (Limits(requests_per_minute=0, points_per_hour=9), '"points";q=9;qu="points";w=3600'),
        (Limits(requests_per_minute=9, points_per_hour=0), '"requests";q=9;w=60'),
    ],
)
def test_limits_that_do_not_exist_are_not_shown(
    frozen: Client, sqlite_database: Database, limits: Limits, policy: str | None
) -> None:
    key = key_of(sqlite_database, "viewer")
    answer = frozen.get("/v1/meta", headers=key)
    assert answer.headers.get("ratelimit-policy") == policy
    assert ("ratelimit" in answer.headers) == bool(limits.requests_per_minute)


def test_a_full_disk_lets_readers_in_for_a_slice_a_minute(
    database: Database, problem_of: ProblemOf, capsys: pytest.CaptureFixture[str]
) -> None:
    key = key_of(database, "viewer")
    app = create_app(Settings(limits=Limits(requests_per_minute=60)), database)
    with full_disk(database), TestClient(app, base_url=BASE_URL) as client:
        freeze(client)
        answers = [client.get("/v1/cluster-profiles", headers=key) for _ in range(5)]
        freeze(client, NOW + timedelta(seconds=40))
        answers.append(client.get("/v1/cluster-profiles", headers=key))
    statuses = [answer.status_code for answer in answers]
    assert statuses == [200, 200, 200, 429, 429, 200]
    detail = problem_of(answers[3], "too-many-requests")["detail"]
    assert detail.startswith("3 requests a minute are answered to viewer of a test [")
    assert "], because they cannot be counted now; the next minute" in detail
    assert answers[3].headers["ratelimit"] == '"requests";r=0;t=40'
    assert capsys.readouterr().err.count("requests_not_counted") == 2
    structlog.reset_defaults()


def test_with_room_again_requests_are_counted_again(
    sqlite_database: Database, frozen: Client
) -> None:
    key = key_of(sqlite_database, "viewer")
    with full_disk(sqlite_database):
        assert frozen.get("/v1/cluster-profiles", headers=key).status_code == 200
    answers = [frozen.get("/v1/cluster-profiles", headers=key) for _ in range(LIMIT + 1)]
    assert [answer.status_code for answer in answers] == [*[200] * LIMIT, 429]


@pytest.fixture
def two_services(database: Database) -> tuple[RequestRates, RequestRates]:
    """The counters of two processes over one database."""
    limits = Limits(requests_per_minute=100)
    return (
        RequestRates(database, limits, clock=lambda: NOW),
        RequestRates(database, limits, clock=lambda: NOW),
    )


def test_two_processes_together_keep_the_limit_when_all_come_at_once(
    two_services: tuple[RequestRates, RequestRates],
) -> None:
    actor = Actor(principal="key:a")
    answered: list[dict[str, Any]] = []
    refused: list[tuple[int, bytes]] = []

    async def ask(rates: RequestRates) -> None:
        scope: dict[str, Any] = {}
        try:
            await rates.admit(scope, actor)
        except OverLimitError as error:
            refused.append((error.retry_after_s, limit_fields(scope)[b"ratelimit"]))
        else:
            answered.append(scope)

    async def ask_all() -> None:
        async with anyio.create_task_group() as group:
            for number in range(240):
                group.start_soon(ask, two_services[number % 2])

    anyio.run(ask_all)
    assert len(answered) == 100
    assert refused == [(40, b'"requests";r=0;t=40')] * 140


def test_one_of_two_processes_may_use_the_whole_limit(
    two_services: tuple[RequestRates, RequestRates],
) -> None:
    actor = Actor(principal="key:a")
    one, other = two_services

    async def use_all() -> None:
        for _ in range(100):
            await one.admit({}, actor)
        for rates in (one, other):
            with pytest.raises(OverLimitError):
                await rates.admit({}, actor)

    anyio.run(use_all)


def test_a_repeated_request_charges_nothing(frozen: Client, sqlite_database: Database) -> None:
    key = key_of(sqlite_database, "planner") | {"Idempotency-Key": "once"}
    first = frozen.post("/v1/scenario-batches", json=body(90), headers=key)
    again = frozen.post("/v1/scenario-batches", json=body(90), headers=key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.headers["idempotent-replayed"] == "true"
    plan = frozen.post("/v1/scenario-batches?validate_only=true", json=body(90), headers=key)
    assert plan.json()["points_left"] == 10


def test_the_teams_quota_is_429_and_holds_across_services(
    frozen: Client, sqlite_database: Database, limits: Limits, problem_of: ProblemOf
) -> None:
    key, other = (key_of(sqlite_database, "planner") for _ in range(2))
    assert frozen.post("/v1/scenario-batches", json=body(90), headers=key).status_code == 202
    app = create_app(Settings(limits=limits), sqlite_database)
    with TestClient(app, base_url=BASE_URL) as second:
        refused = second.post("/v1/scenario-batches", json=body(11), headers=other)
    problem = problem_of(refused, "quota-exceeded")
    assert problem["detail"].startswith("11 points, but 10 are left of the 100 points")
    assert 1 <= int(refused.headers["retry-after"]) <= 3_600


def test_more_than_an_hour_may_hold_is_422(
    frozen: Client, sqlite_database: Database, problem_of: ProblemOf
) -> None:
    key = key_of(sqlite_database, "planner")
    refused = frozen.post("/v1/scenario-batches", json=body(101), headers=key)
    assert problem_of(refused, "invalid-input")["errors"][0]["code"] == "over_quota"
