import hashlib
import hmac
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import msgspec
import pytest
import structlog
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from litestar import Litestar
from litestar.testing import TestClient

from service.api import issuer_keys
from service.app import create_app
from service.db.audit import events_of
from service.db.engine import Database
from service.jobs.actors import DEFAULT_TEAM_ID
from service.settings import Limits, Oidc, Settings
from tests.api.access_keys import key_of, new_team
from tests.api.conftest import BASE_URL
from tests.api.token_issuer import (
    AUDIENCE,
    Issuer,
    base64url,
    by_hand,
    new_ec,
    public_jwk,
    rsa_key,
    running,
)

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
ROLES = {
    "sre": "planner",
    "corp-finance": "finance",
    "capacity": "planner+costs:read",
    "guests": "viewer",
}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running(Issuer()) as found:
        yield found


def trusting(database: Database, issuer: Issuer, **oidc: Any) -> Litestar:
    """The service as it is set up to take tokens of the issuer."""
    wanted = {"issuer": issuer.url, "audience": AUDIENCE, "roles": ROLES, "team": "default", **oidc}
    return create_app(Settings(oidc=Oidc(**wanted), limits=Limits(requests_per_minute=0)), database)


@pytest.fixture
def client(sqlite_database: Database, issuer: Issuer) -> Iterator[Client]:
    with TestClient(trusting(sqlite_database, issuer), base_url=BASE_URL) as opened:
        yield opened


class Steady(msgspec.Struct, frozen=True, kw_only=True):
    """A service and an issuer that no test changes: starting them takes longer than a test."""

    client: Any
    issuer: Issuer
    database: Database

    def ask(self, token: str, path: str = "/v1/meta") -> httpx.Response:
        return ask(self.client, token, path)


@pytest.fixture(scope="module")
def steady(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steady]:
    path = tmp_path_factory.mktemp("oidc") / "trainard.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database(f"sqlite:///{path}")
    with (
        running(Issuer()) as issuer,
        TestClient(trusting(database, issuer), base_url=BASE_URL) as client,
    ):
        yield Steady(client=client, issuer=issuer, database=database)
    database.close()


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def ask(client: Client, token: str, path: str = "/v1/meta") -> httpx.Response:
    return client.get(path, headers={"Authorization": f"Bearer {token}"})


@pytest.mark.parametrize("key_id", ["rsa-1", "ec-1"])
def test_a_token_of_the_issuer_gets_in(
    database: Database, issuer: Issuer, problem_of: ProblemOf, key_id: str
) -> None:
    with TestClient(trusting(database, issuer), base_url=BASE_URL) as client:
        token = issuer.token(key_id)
        assert ask(client, token).status_code == 200
        problem_of(ask(client, token, "/v1/gpu-hour-rates"), "missing-scope")
        assert issuer.times_asked == 1
    with database.read() as connection:
        (event,) = events_of(connection, DEFAULT_TEAM_ID)
    digest = hashlib.sha256(f"{issuer.url}\0user-1".encode()).hexdigest()
    assert event.principal == f"oidc:{digest}"
    assert event.actor == f"ada@corp.example [oidc:{digest[:12]}]"
    assert (event.role, event.outcome) == ("planner", "refused")


def test_a_service_that_trusts_an_issuer_is_not_open(
    client: Client, sqlite_database: Database, problem_of: ProblemOf
) -> None:
    problem_of(client.get("/v1/meta"), "unauthenticated")
    key = key_of(sqlite_database, "viewer")
    assert client.get("/v1/meta", headers=key).status_code == 200


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1_000_000_000}, "expired"),
        ({"exp": -61}, "expired"),
        ({"nbf": 300}, "not valid yet"),
        ({"iat": 300}, "not valid yet"),
        ({"aud": "another"}, "another audience"),
        ({"aud": ["another", "one"]}, "another audience"),
        ({"aud": []}, "needs the claims"),
        ({"iss": "https://login.evil.example"}, "another issuer"),
        ({"exp": None}, "needs the claims"),
        ({"iat": None}, "needs the claims"),
        ({"aud": None}, "needs the claims"),
        ({"iss": None}, "needs the claims"),
        ({"sub": None}, "needs the claims"),
        ({"sub": ""}, "no subject"),
        ({"nbf": "soon"}, "broken"),
        ({"exp": "9999999999"}, "no moment"),
        ({"exp": 10**20}, "no moment"),
        ({"exp": 9_999_999_999.5}, "no moment"),
        ({"sub": "\ud800"}, "no text"),
    ],
)
def test_claims_that_do_not_hold_are_named(
    steady: Steady, problem_of: ProblemOf, claims: dict[str, Any], reason: str
) -> None:
    """Small numbers are seconds from now."""
    now = int(time.time())
    moved: dict[str, Any] = {
        name: now + value if isinstance(value, int) and abs(value) < 1_000 else value
        for name, value in claims.items()
    }
    assert (
        reason in problem_of(steady.ask(steady.issuer.token(**moved)), "unauthenticated")["detail"]
    )


def test_clocks_may_differ_by_a_minute(steady: Steady) -> None:
    now = int(time.time())
    moved: list[dict[str, Any]] = [{"exp": now - 50}, {"nbf": now + 50}, {"iat": now + 50}]
    for claims in moved:
        assert steady.ask(steady.issuer.token(**claims)).status_code == 200


def test_only_named_algorithms_are_taken(steady: Steady, problem_of: ProblemOf) -> None:
    rsa = steady.issuer.keys["rsa-1"]
    claims = jwt.decode(steady.issuer.token(), options={"verify_signature": False})
    unsigned = by_hand({"alg": "none", "kid": "rsa-1"}, claims)
    pem = rsa.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = by_hand({"alg": "HS256", "kid": "rsa-1"}, claims).rpartition(".")[0]
    confused = f"{head}.{base64url(hmac.digest(pem, head.encode(), 'sha256'))}"
    wider = steady.issuer.token(algorithm="PS512")
    for token in (unsigned, unsigned.replace("none", "None"), confused, wider):
        told = problem_of(steady.ask(token), "unauthenticated")["detail"]
        assert "must be signed by RS256 or ES256" in told
    swapped = by_hand({"alg": "ES256", "kid": "rsa-1"}, claims, b"x" * 64)
    assert "not for it" in problem_of(steady.ask(swapped), "unauthenticated")["detail"]


def test_what_the_issuer_did_not_sign_is_refused(steady: Steady, problem_of: ProblemOf) -> None:
    forged = steady.issuer.token(key=rsa_key("forger"))
    assert "signature is wrong" in problem_of(steady.ask(forged), "unauthenticated")["detail"]
    header, claims, signature = steady.issuer.token().split(".")
    more = jwt.decode(steady.issuer.token(), options={"verify_signature": False}) | {
        "roles": ["admin"]
    }
    changed = f"{header}.{base64url(msgspec.json.encode(more))}.{signature}"
    problem_of(steady.ask(changed), "unauthenticated")
    problem_of(steady.ask(f"{header}.{claims}."), "unauthenticated")
    critical = jwt.encode(
        more, steady.issuer.keys["rsa-1"], "RS256", headers={"kid": "rsa-1", "crit": ["x"], "x": 1}
    )
    problem_of(steady.ask(critical), "unauthenticated")


def test_a_new_key_is_looked_for_at_most_twice_a_minute(
    client: Client, issuer: Issuer, problem_of: ProblemOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(client, issuer.token()).status_code == 200
    issuer.keys["rsa-2"] = rsa_key("rsa-2")
    for _ in range(3):
        told = problem_of(ask(client, issuer.token("rsa-2")), "unauthenticated")["detail"]
        assert "a key the issuer has not" in told
    assert issuer.times_asked == 1
    monkeypatch.setattr(issuer_keys, "ASK_EVERY_S", 0.0)
    assert ask(client, issuer.token("rsa-2")).status_code == 200
    assert issuer.times_asked == 2
    old = issuer.token("ec-1")
    del issuer.keys["ec-1"]
    assert ask(client, old).status_code == 200
    monkeypatch.setattr(issuer_keys, "LIFETIME_S", 0.0)
    problem_of(ask(client, old), "unauthenticated")


def test_a_token_without_key_id_is_taken_of_an_issuer_with_one_key(
    client: Client, issuer: Issuer, problem_of: ProblemOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem_of(ask(client, issuer.token(None)), "unauthenticated")
    del issuer.keys["ec-1"]
    monkeypatch.setattr(issuer_keys, "ASK_EVERY_S", 0.0)
    monkeypatch.setattr(issuer_keys, "LIFETIME_S", 0.0)
    assert ask(client, issuer.token(None)).status_code == 200


@pytest.mark.parametrize(
    "broken",
    [
        (500, {}, b""),
        (302, {"Location": "/elsewhere"}, b""),
        (200, {}, b"<html>"),
        (200, {}, b"[" * 100_000),
        (200, {}, b'{"keys": 1}'),
        (200, {}, b'{"keys": []}'),
        (200, {}, b'{"keys": [], "x": "' + b"x" * 600_000 + b'"}'),
    ],
)
def test_an_issuer_that_breaks_keeps_those_who_are_known(
    client: Client,
    issuer: Issuer,
    problem_of: ProblemOf,
    monkeypatch: pytest.MonkeyPatch,
    broken: tuple[int, dict[str, str], bytes],
) -> None:
    monkeypatch.setattr(issuer_keys, "ASK_FIRST_EVERY_S", 0.0)
    keys, issuer.broken = issuer.broken, broken
    away = ask(client, issuer.token())
    problem_of(away, "unavailable")
    assert away.headers["retry-after"]
    issuer.broken = keys
    assert ask(client, issuer.token()).status_code == 200
    issuer.broken = broken
    monkeypatch.setattr(issuer_keys, "ASK_EVERY_S", 0.0)
    monkeypatch.setattr(issuer_keys, "LIFETIME_S", 0.0)
    asked = issuer.times_asked
    assert ask(client, issuer.token()).status_code == 200
    assert issuer.times_asked == asked + 1


def test_an_issuer_that_is_away_is_no_defect(
    sqlite_database: Database, problem_of: ProblemOf
) -> None:
    with running(Issuer()) as gone:
        app = trusting(sqlite_database, gone)
        token = gone.token()
    with TestClient(app, base_url=BASE_URL) as client:
        problem_of(ask(client, token), "unavailable")


def test_the_keys_are_where_it_is_said(
    sqlite_database: Database, issuer: Issuer, problem_of: ProblemOf
) -> None:
    app = trusting(sqlite_database, issuer, jwks_url=f"{issuer.url}/jwks")
    with TestClient(app, base_url=BASE_URL) as client:
        assert ask(client, issuer.token()).status_code == 200
    issuer.jwks_uri = "file:///etc/passwd"
    with TestClient(trusting(sqlite_database, issuer), base_url=BASE_URL) as client:
        problem_of(ask(client, issuer.token()), "unavailable")


def test_weak_and_foreign_keys_of_the_issuer_are_not_used(
    client: Client, issuer: Issuer, problem_of: ProblemOf
) -> None:
    weak, other = rsa_key("weak", 1024), new_ec()
    issuer.more_keys = [
        public_jwk(weak, kid="weak"),
        public_jwk(other, kid="other", alg="ES384"),
        public_jwk(other, kid="encryption", use="enc"),
        {"kid": "shared", "kty": "oct", "k": base64url(b"x" * 32)},
        {"kid": "broken", "kty": "RSA", "n": "!", "e": 3},
    ]
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        weakly = issuer.token("weak", weak)
    tokens = [
        weakly,
        issuer.token("other", other),
        issuer.token("encryption", other),
        issuer.token("broken", rsa_key("forger")),
        by_hand({"alg": "RS256", "kid": "shared"}, {}, b"x" * 256),
    ]
    for token in tokens:
        problem_of(ask(client, token), "unauthenticated")


@pytest.mark.parametrize(
    ("roles", "sees_costs"),
    [
        ("sre", False),
        (["unknown", "guests"], False),
        (["sre", "capacity"], True),
        (["guests", "corp-finance", "sre"], True),
    ],
)
def test_the_widest_role_wins(steady: Steady, roles: Any, *, sees_costs: bool) -> None:
    answer = steady.ask(steady.issuer.token(roles=roles), "/v1/gpu-hour-rates")
    assert answer.status_code == (200 if sees_costs else 403)


@pytest.mark.parametrize("roles", [None, [], "unknown", ["admin"], 7, {"sre": True}, [["sre"]]])
def test_no_role_is_a_sentence(steady: Steady, problem_of: ProblemOf, roles: Any) -> None:
    refused = problem_of(steady.ask(steady.issuer.token(roles=roles)), "no-role")
    assert "'roles'" in refused["detail"]


def test_claims_are_found_by_path(sqlite_database: Database, issuer: Issuer) -> None:
    app = trusting(
        sqlite_database,
        issuer,
        role_claim="realm_access.roles",
        team_claim="https://corp.example/team",
        team="",
    )
    new_team(sqlite_database, "infra")
    claims: dict[str, Any] = {
        "realm_access": {"roles": ["corp-finance"]},
        "https://corp.example/team": "infra",
    }
    with TestClient(app, base_url=BASE_URL) as client:
        token = issuer.token(roles=None, **claims)
        assert ask(client, token, "/v1/gpu-hour-rates").status_code == 200


@pytest.mark.parametrize("team", ["nobody", "No Slug", "x\0", 7, ""])
def test_an_unknown_team_is_a_sentence(steady: Steady, problem_of: ProblemOf, team: Any) -> None:
    assert "team" in problem_of(steady.ask(steady.issuer.token(team=team)), "no-role")["detail"]


@pytest.mark.parametrize("email", [None, "", 7, "x" * 5_000, "a\r\nb\x1b[31m\u2028"])
def test_a_name_fits_into_a_line_of_the_audit_trail(steady: Steady, email: Any) -> None:
    token = steady.issuer.token(email=email, sub="s" * 300)
    assert steady.ask(token, "/v1/gpu-hour-rates").status_code == 403
    with steady.database.read() as connection:
        event = events_of(connection, DEFAULT_TEAM_ID)[-1]
    assert event.actor.isprintable()
    assert len(event.actor) <= 120


@pytest.mark.parametrize("role", ["root", "viewer+costs:read", "planner+everything", ""])
def test_a_role_that_is_none_of_ours_is_named(
    sqlite_database: Database, issuer: Issuer, role: str
) -> None:
    with pytest.raises(ValueError, match="TRAINARD_OIDC_ROLES"):
        trusting(sqlite_database, issuer, roles={"x": role})


PARTS = st.one_of(
    st.binary(max_size=60).map(base64url),
    st.dictionaries(
        st.sampled_from(["alg", "kid", "crit", "b64", "typ", "x5u", "jku"]),
        st.one_of(st.none(), st.integers(), st.sampled_from(["RS256", "ES256", "none"]), st.text()),
    ).map(lambda header: base64url(msgspec.json.encode(header))),
)
TOKENS = st.one_of(
    st.lists(PARTS, min_size=1, max_size=5).map(".".join),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=300),
)


def test_no_garbage_gets_in_or_breaks_anything(steady: Steady) -> None:
    assert steady.ask(steady.issuer.token()).status_code == 200
    nested = base64url(b"[" * 9_000)
    for token in (f"{nested}.e30.x", "x" * 16_385, f"{'x' * 16_000}.x.x"):
        assert steady.ask(token).status_code == 401

    @settings(
        max_examples=200,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(token=TOKENS)
    def attempt(token: str) -> None:
        answer = steady.ask(token)
        assert answer.status_code == 401, answer.text

    attempt()
    assert steady.issuer.times_asked == 1
