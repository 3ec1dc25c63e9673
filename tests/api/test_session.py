"""Signing in on the pages: what the cookie opens, for whom, and how it ends."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import func, select, update

from service.api.sign_in_attempts import MAX_REFUSED
from service.db.engine import Database
from service.db.tables import api_key, web_session
from service.jobs.scopes import ROLE_SCOPES, SCOPES
from service.jobs.web_sessions import PER_KEY
from service.settings import Limits, Settings
from tests.api.access_keys import key_of, new_team
from tests.api.conftest import BASE_URL
from tests.api.reused_apps import app_over
from tests.jobs.audit_trails import events
from tests.jobs.batch_bodies import item, run

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
PATH = "/v1/session"
# What a browser says of a request that a page of this service sends
OURS = {"Sec-Fetch-Site": "same-origin"}
NOBODY: dict[str, Any] = {
    "is_open": False,
    "signed_in": False,
    "name": None,
    "role": None,
    "team": None,
    "scopes": [],
    "expires_at": None,
}
WRONG_SECRET = "A" * 43


@contextmanager
def serving(
    database: Database, settings: Settings | None = None, base_url: str = BASE_URL
) -> Iterator[Client]:
    wanted = settings or Settings(limits=Limits(requests_per_minute=0))
    with app_over(wanted, database) as app, TestClient(app, base_url=base_url) as client:
        yield client


@pytest.fixture
def closed(database: Database) -> Iterator[Client]:
    """A service with an administrator's key, on both databases."""
    key_of(database, "admin")
    with serving(database) as client:
        yield client


def text_of(header: dict[str, str]) -> str:
    return header["Authorization"].removeprefix("Bearer ")


def sign_in(client: Client, header: dict[str, str]) -> httpx.Response:
    answer: httpx.Response = client.post(PATH, json={"key": text_of(header)}, headers=OURS)
    assert answer.status_code == 201, answer.text
    return answer


def test_an_open_service_needs_nobody(client: Client, problem_of: ProblemOf) -> None:
    found = client.get(PATH).json()
    assert found == {**NOBODY, "is_open": True, "scopes": list(SCOPES)}
    refused = client.post(PATH, json={"key": f"trn_{'0' * 16}_{WRONG_SECRET}"}, headers=OURS)
    problem_of(refused, "no-key-needed")
    forwarded = client.get(PATH, headers={"X-Forwarded-For": "192.0.2.7"})
    problem_of(forwarded, "forwarded-while-open")
    # A cookie of another service of this host, on another port
    client.cookies.set("trainard_session", "B" * 43)
    assert client.get("/v1/meta").status_code == 200


def test_the_cookie_stands_for_its_key(closed: Client, database: Database) -> None:
    header = key_of(database, "planner")
    assert closed.get(PATH).json() == NOBODY
    answer = sign_in(closed, header)
    cookie = re.fullmatch(
        r"trainard_session=([A-Za-z0-9_-]{43}); Path=/; HttpOnly; SameSite=Strict",
        answer.headers["set-cookie"],
    )
    assert cookie is not None
    assert answer.headers["cache-control"] == "no-store"
    signed_in = answer.json()
    public_id = header["Authorization"].split("_")[1]
    assert signed_in["name"] == f"planner of a test [{public_id}]"
    assert (signed_in["role"], signed_in["team"]) == ("planner", "default")
    assert set(signed_in["scopes"]) == ROLE_SCOPES["planner"]
    left = datetime.fromisoformat(signed_in["expires_at"]) - datetime.now(UTC)
    assert timedelta(hours=11.9) < left <= timedelta(hours=12)
    assert closed.get(PATH, headers=OURS).json() == signed_in
    assert closed.get("/v1/scenario-batches", headers=OURS).status_code == 200
    # It is stored as its digest only, and no answer shows the key.
    with database.read() as connection:
        (row,) = connection.execute(select(web_session)).all()
    assert cookie[1] not in str(row)
    assert text_of(header) not in answer.text + str(answer.headers)


def test_changes_by_cookie_are_the_keys_own(closed: Client, database: Database) -> None:
    header = key_of(database, "admin")
    sign_in(closed, header)
    made = closed.post("/v1/api-keys", json={"name": "new", "role": "viewer"}, headers=OURS)
    assert made.status_code == 201
    signed_in, event = events(database)[-2:]
    assert (signed_in.action, event.action) == ("sign_in", "create_api_key")
    assert signed_in.subject.startswith("web-session/")
    assert event.principal == signed_in.principal == f"key:{header['Authorization'].split('_')[1]}"
    assert closed.get(PATH, headers=OURS).json()["name"] == event.actor
    with database.read() as connection:
        used = connection.scalars(select(api_key.c.last_used_at)).all()
    assert any(used)


def test_the_authorization_header_wins(closed: Client, database: Database) -> None:
    sign_in(closed, key_of(database, "admin"))
    viewer = key_of(database, "viewer")
    assert closed.get(PATH, headers={**OURS, **viewer}).json()["role"] == "viewer"
    assert closed.get("/v1/api-keys", headers=viewer).status_code == 403
    wrong = {"Authorization": f"Bearer trn_{'0' * 16}_{WRONG_SECRET}"}
    assert closed.get("/v1/api-keys", headers={**OURS, **wrong}).status_code == 401


def test_a_copy_of_the_cookie_is_worth_nothing_after_sign_out(
    closed: Client, database: Database, problem_of: ProblemOf
) -> None:
    token = sign_in(closed, key_of(database, "finance")).cookies["trainard_session"]
    thief = {"Cookie": f"trainard_session={token}", **OURS}
    closed.cookies.clear()
    assert closed.get("/v1/meta", headers=thief).status_code == 200
    closed.cookies.set("trainard_session", token, domain="127.0.0.1")
    out = closed.delete(PATH, headers=OURS)
    assert (out.status_code, out.content) == (204, b"")
    assert out.headers["set-cookie"].endswith("; Max-Age=0")
    assert out.headers["cache-control"] == "no-store"
    assert "trainard_session" not in closed.cookies
    refused = closed.get("/v1/meta", headers=thief)
    assert "ended" in problem_of(refused, "unauthenticated")["detail"]
    assert closed.get(PATH, headers=thief).json() == NOBODY
    # Again it changes nothing, and leaves no second event.
    assert closed.delete(PATH, headers=thief).status_code == 204
    assert [event.action for event in events(database)] == ["sign_in", "sign_out"]


def test_a_revoked_key_ends_its_sessions_at_once(
    closed: Client, database: Database, problem_of: ProblemOf
) -> None:
    admin, viewer = key_of(database, "admin"), key_of(database, "viewer")
    sign_in(closed, viewer)
    assert closed.get("/v1/meta", headers=OURS).status_code == 200
    public_id = viewer["Authorization"].split("_")[1]
    keys = closed.get("/v1/api-keys", headers=admin).json()["items"]
    (key_id,) = [key["id"] for key in keys if key["public_id"] == public_id]
    assert closed.post(f"/v1/api-keys/{key_id}/revocation", headers=admin).status_code == 200
    refused = closed.get("/v1/meta", headers=OURS)
    assert "revoked" in problem_of(refused, "unauthenticated")["detail"]
    assert closed.get(PATH, headers=OURS).json() == NOBODY
    with database.read() as connection:
        assert connection.scalars(select(web_session.c.ended_at)).one() is not None


def test_it_ends_with_its_hours_and_with_its_key(
    closed: Client, database: Database, problem_of: ProblemOf
) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    header = key_of(database, "viewer")
    with database.write() as connection:
        of_viewer = update(api_key).where(api_key.c.role == "viewer")
        connection.execute(of_viewer.values(expires_at=soon))
    assert datetime.fromisoformat(sign_in(closed, header).json()["expires_at"]) == soon
    past = datetime.now(UTC) - timedelta(seconds=1)
    for table in (web_session, api_key):
        with database.write() as connection:
            connection.execute(update(table).values(expires_at=past))
        problem_of(closed.get("/v1/meta", headers=OURS), "unauthenticated")


def test_of_two_teams_each_sees_its_own(closed: Client, database: Database) -> None:
    batch = str(run(database, item()).id)
    ours, theirs = (
        key_of(database, "viewer"),
        key_of(database, "admin", new_team(database, "rival")),
    )
    sign_in(closed, ours)
    path = f"/v1/scenario-batches/{batch}"
    assert closed.get(path, headers=OURS).status_code == 200
    # Signing in anew ends the session that the browser had.
    signed_in = sign_in(closed, theirs).json()
    assert signed_in["team"] == "rival"
    assert closed.get(path, headers=OURS).status_code == 404
    with database.read() as connection:
        ended = connection.execute(select(func.count(web_session.c.ended_at))).scalar_one()
    assert ended == 1
    assert [event.action for event in events(database)][-2:] == ["sign_in", "sign_out"]


def test_money_is_withheld_by_cookie_exactly_as_by_key(closed: Client, database: Database) -> None:
    finance, viewer = key_of(database, "finance"), key_of(database, "viewer")
    rate = {
        "gpu_type": "H100",
        "price_per_gpu_hour": {"amount": "12345.67", "currency": "EUR"},
        "valid_from": "2026-01-01",
        "source": "example amount",
    }
    assert closed.post("/v1/gpu-hour-rates", json=rate, headers=finance).status_code == 201
    priced = item(pricing={"gpu_type": "H100"})
    batch = run(database, priced, currency="EUR", start_on="2026-12-01").id
    reads = [
        f"/v1/scenario-batches/{batch}",
        f"/v1/scenario-batches/{batch}/results",
        "/v1/results",
        "/v1/loss-history?scenario=a",
        "/v1/gpu-hour-rates",
    ]
    for header, sees in ((viewer, False), (finance, True)):
        closed.cookies.clear()
        by_key = [closed.get(path, headers=header) for path in reads]
        sign_in(closed, header)
        by_cookie = [closed.get(path, headers=OURS) for path in reads]
        assert [answer.status_code for answer in by_cookie] == [
            answer.status_code for answer in by_key
        ]
        for key, cookie in zip(by_key, by_cookie, strict=True):
            if key.is_success:
                assert cookie.content == key.content
        shown = "".join(answer.text for answer in by_cookie)
        assert ("12345.67" in shown) is sees
        assert (by_cookie[-1].status_code == 200) is sees


def test_who_signs_in_with_what_is_no_good_key_is_told_at_the_field(
    closed: Client, database: Database, problem_of: ProblemOf
) -> None:
    header = key_of(database, "viewer")
    public_id = header["Authorization"].split("_")[1]
    for key in (f"trn_{public_id}_{WRONG_SECRET}", f"trn_{'0' * 16}_{WRONG_SECRET}", "trn_"):
        refused = closed.post(PATH, json={"key": key}, headers=OURS)
        problem = problem_of(refused, "unauthenticated")
        assert problem["errors"] == [
            {"code": "refused_key", "detail": "there is no such API key", "pointer": "/key"}
        ]
        assert "set-cookie" not in refused.headers
    # The team of the key learns of it.
    (event,) = [event for event in events(database) if event.outcome == "refused"]
    assert (event.action, event.subject) == ("sign_in", PATH)
    assert event.principal == f"key:{public_id}"
    of_issuer = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln"
    for text, said in ((of_issuer, "token of an issuer"), ("secret text", "no API key")):
        refused = closed.post(PATH, json={"key": text}, headers=OURS)
        problem = problem_of(refused, "invalid-input")
        assert [fault["pointer"] for fault in problem["errors"]] == ["/key"]
        assert said in problem["detail"]
        assert text not in refused.text


def test_refused_sign_ins_are_bounded_for_each_address(
    closed: Client, database: Database, problem_of: ProblemOf
) -> None:
    good = key_of(database, "viewer")
    wrong = {"key": f"trn_{'0' * 16}_{WRONG_SECRET}"}
    statuses = [
        closed.post(PATH, json=wrong, headers=OURS).status_code for _ in range(2 * MAX_REFUSED + 1)
    ]
    # A minute may end meanwhile.
    assert statuses[:MAX_REFUSED] == [401] * MAX_REFUSED
    assert 429 in statuses
    if statuses[-1] == 429:
        refused = closed.post(PATH, json={"key": text_of(good)}, headers=OURS)
        if refused.status_code == 429:
            problem_of(refused, "too-many-requests")
            assert 1 <= int(refused.headers["retry-after"]) <= 60


def test_requests_by_cookie_count_for_the_key(database: Database) -> None:
    header = key_of(database, "viewer")
    settings = Settings(limits=Limits(requests_per_minute=20))
    with serving(database, settings) as client:
        sign_in(client, header)
        by_cookie = client.get("/v1/meta", headers=OURS).headers["ratelimit"]
        by_key = client.get("/v1/meta", headers=header).headers["ratelimit"]
    left = [int(re.findall(r"r=(\d+)", field)[0]) for field in (by_cookie, by_key)]
    # Unless a minute began in between
    assert left in ([18, 17], [18, 19], [19, 18])


def test_behind_tls_the_cookie_is_secure_and_of_this_host_only(sqlite_database: Database) -> None:
    header = key_of(sqlite_database, "viewer")
    settings = Settings(allowed_hosts=("trainard.example",), session_hours=1)
    with serving(sqlite_database, settings, "https://trainard.example") as client:
        answer = sign_in(client, header)
        assert re.fullmatch(
            r"__Host-trainard_session=\S{43}; Path=/; HttpOnly; SameSite=Strict; Secure",
            answer.headers["set-cookie"],
        )
        left = datetime.fromisoformat(answer.json()["expires_at"]) - datetime.now(UTC)
        assert timedelta(minutes=59) < left <= timedelta(hours=1)
        assert client.get("/v1/meta", headers=OURS).status_code == 200
        # One without the prefix, which a page of another subdomain can set, is not looked at.
        token = answer.cookies["__Host-trainard_session"]
        client.cookies.clear()
        tossed = {**OURS, "Cookie": f"trainard_session={token}"}
        assert client.get("/v1/meta", headers=tossed).status_code == 401


def test_no_cookie_gets_in_that_was_not_given(closed: Client, problem_of: ProblemOf) -> None:
    for cookie in ("", "x", "A" * 43, "A" * 44, "é" * 43, '"', "A" * 20_000):
        sent: Any = {b"sec-fetch-site": b"same-origin"}
        sent[b"cookie"] = f"trainard_session={cookie}".encode()
        problem_of(closed.get("/v1/meta", headers=sent), "unauthenticated")
        assert closed.get(PATH, headers=sent).json() == NOBODY
        assert closed.delete(PATH, headers=sent).status_code == 204


def test_two_cookies_of_one_name_are_none(closed: Client, database: Database) -> None:
    token = sign_in(closed, key_of(database, "admin")).cookies["trainard_session"]
    closed.cookies.clear()
    both = {**OURS, "Cookie": f"trainard_session={'A' * 43}; trainard_session={token}"}
    assert closed.get("/v1/meta", headers=both).status_code == 401


def test_a_key_has_so_many_sessions(closed: Client, database: Database) -> None:
    header = key_of(database, "viewer")
    first = sign_in(closed, header).cookies["trainard_session"]
    for _ in range(PER_KEY):
        closed.cookies.clear()
        sign_in(closed, header)
    with database.read() as connection:
        held = connection.execute(select(func.count()).select_from(web_session)).scalar_one()
    assert held == PER_KEY
    closed.cookies.clear()
    oldest = {**OURS, "Cookie": f"trainard_session={first}"}
    assert closed.get("/v1/meta", headers=oldest).status_code == 401
