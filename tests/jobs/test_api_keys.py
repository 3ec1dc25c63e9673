from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from service.db.audit import events_of
from service.db.engine import Database
from service.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    MalformedError,
    NotFoundError,
    PreconditionFailedError,
    UnauthenticatedError,
)
from service.jobs import api_keys, teams
from service.jobs.actors import DEFAULT_TEAM_ID, Actor, program
from service.jobs.key_checks import actor_of_key
from service.jobs.key_documents import KeyChangeIn, KeyIn, KeyOut, NewKeyOut
from service.jobs.page_tokens import make_token
from service.jobs.scopes import ROLE_SCOPES, SCOPES, Role

ADMIN = program("key")


def make(database: Database, actor: Actor = ADMIN, **document: Any) -> NewKeyOut:
    wanted = KeyIn(**{"name": "a program", "role": "planner", **document})
    with database.write() as connection:
        return api_keys.create_key(connection, actor, wanted)


def known(database: Database, key: str | None, now: datetime | None = None) -> Actor:
    assert key is not None
    with database.read() as connection:
        return actor_of_key(connection, key, now or datetime.now(UTC))


def listed(database: Database, actor: Actor = ADMIN) -> list[KeyOut]:
    with database.read() as connection:
        return api_keys.list_page(connection, actor, page_size=100, page_token=None).items


def other_team(database: Database) -> Actor:
    with database.write() as connection:
        return program("key", teams.create_team(connection, "test", slug="other").id)


@pytest.mark.parametrize("role", ["viewer", "planner", "finance", "admin"])
def test_a_key_holds_what_its_role_holds(database: Database, role: Role) -> None:
    made = make(database, role=role)
    actor = known(database, made.key)
    assert actor.scopes == set(made.scopes) == ROLE_SCOPES[role]
    assert (actor.role, actor.team_id) == (role, DEFAULT_TEAM_ID)
    assert actor.principal == f"key:{made.public_id}"


def test_scopes_are_granted_and_kept(database: Database) -> None:
    granted = make(database, grant=("costs:read",))
    assert known(database, granted.key).sees_costs
    kept = make(database, grant=("costs:read",), only=("costs:read", "results:read"))
    assert known(database, kept.key).scopes == {"costs:read", "results:read"}
    assert kept.scopes == ("results:read", "costs:read")


def test_the_secret_is_stored_nowhere(database: Database) -> None:
    made = make(database)
    assert made.key is not None
    secret = made.key.split("_", 2)[2]
    with database.read() as connection:
        event = events_of(connection, DEFAULT_TEAM_ID)[-1]
    assert secret not in repr(event)
    assert secret not in msgspec.json.encode(listed(database)).decode()
    assert event.action == "create_api_key"
    assert event.subject == f"api-key/{made.public_id}"


@pytest.mark.parametrize(
    ("document", "pointer", "code"),
    [
        ({"role": "viewer", "grant": ("costs:read",)}, "/grant/0", "not_grantable"),
        ({"grant": ("costs:read", "keys:write")}, "/grant/1", "not_grantable"),
        ({"only": ("batches:read", "keys:read")}, "/only/1", "not_held"),
        ({"role": "finance", "only": ("costs:write",)}, "/only", "needs_costs_read"),
        ({"name": " x"}, "/name", "malformed_label"),
        ({"name": "x" * 101}, "/name", "too_long"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "/expires_at", "in_the_past"),
        (
            {"expires_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))},
            "/expires_at",
            "out_of_range",
        ),
    ],
)
def test_a_malformed_key_is_refused(
    sqlite_database: Database, document: dict[str, Any], pointer: str, code: str
) -> None:
    with pytest.raises(InvalidError) as refused:
        make(sqlite_database, **document)
    assert [(fault.pointer, fault.code) for fault in refused.value.errors] == [(pointer, code)]
    assert listed(sqlite_database) == []


def test_a_key_lasts_a_year_unless_it_is_said(database: Database) -> None:
    lifetime = make(database).expires_at
    assert lifetime is not None
    assert abs(lifetime - datetime.now(UTC) - timedelta(days=365)) < timedelta(minutes=1)
    assert make(database, expires_at=None).expires_at is None
    end = datetime(2099, 5, 4, 3, 2, 1, tzinfo=UTC)
    timed = make(database, expires_at=end)
    assert timed.expires_at == end
    assert known(database, timed.key, end - timedelta(seconds=1)).role == "planner"
    with pytest.raises(UnauthenticatedError, match="expired at 2099-05-04T03:02:01"):
        known(database, timed.key, end)


def test_nobody_hands_out_more_than_they_hold(database: Database) -> None:
    narrow = known(database, make(database, role="admin", only=("keys:write", "keys:read")).key)
    with pytest.raises(ForbiddenError, match=r"service:read.*nobody hands out more"):
        make(database, narrow, role="viewer")
    with pytest.raises(ForbiddenError, match="costs:read"):
        make(database, narrow, grant=("costs:read",), only=("costs:read",))
    wide = make(database, role="finance")
    change = KeyChangeIn(expires_at=None)
    with database.write() as connection, pytest.raises(ForbiddenError, match="costs:write"):
        api_keys.change_key(connection, narrow, wide.id, change, version=1)
    assert make(database, narrow, role="admin", only=("keys:read",)).scopes == ("keys:read",)


def test_the_first_key_is_made_by_command(database: Database) -> None:
    with pytest.raises(ConflictError, match="trainard key create") as refused:
        make(database, Actor())
    assert refused.value.problem == "first-key-by-cli"
    assert listed(database) == []


def test_a_key_is_renamed_and_its_end_moved(database: Database) -> None:
    made = make(database)
    with database.write() as connection:
        renamed = api_keys.change_key(
            connection, ADMIN, made.id, KeyChangeIn(name="another"), version=1
        )
        moved = api_keys.change_key(
            connection, ADMIN, made.id, KeyChangeIn(expires_at=None), version=2
        )
    assert (renamed.name, renamed.expires_at, renamed.version) == ("another", made.expires_at, 2)
    assert (moved.name, moved.expires_at, moved.version) == ("another", None, 3)
    assert known(database, made.key).name == f"another [{made.public_id}]"
    with database.write() as connection, pytest.raises(PreconditionFailedError):
        api_keys.change_key(connection, ADMIN, made.id, KeyChangeIn(name="x"), version=2)
    with database.read() as connection:
        event = events_of(connection, DEFAULT_TEAM_ID)[-1]
    assert (event.action, event.changed) == ("change_api_key", ["expires_at", "version"])


def test_a_revoked_key_is_refused_for_ever(database: Database) -> None:
    made = make(database)
    assert known(database, made.key).role == "planner"
    for _ in range(2):
        with database.write() as connection:
            revoked = api_keys.revoke_key(connection, ADMIN, made.id)
        assert (revoked.revoked_by, revoked.version) == ("key", 2)
    with pytest.raises(UnauthenticatedError, match="is revoked"):
        known(database, made.key)
    with database.write() as connection, pytest.raises(ConflictError, match="for ever"):
        api_keys.change_key(connection, ADMIN, made.id, KeyChangeIn(name="x"), version=2)
    with database.read() as connection:
        actions = [event.action for event in events_of(connection, DEFAULT_TEAM_ID)]
    assert actions == ["create_api_key", "revoke_api_key"]


def test_another_teams_key_is_not_there(database: Database) -> None:
    made, other = make(database), other_team(database)
    assert listed(database, other) == []
    with database.write() as connection:
        for attempt in (
            partial(api_keys.read_key, connection, other, made.id),
            partial(api_keys.find_key, connection, other, made.public_id),
            partial(api_keys.find_key, connection, other, str(made.id)),
            partial(api_keys.revoke_key, connection, other, made.id),
            partial(api_keys.change_key, connection, other, made.id, KeyChangeIn(), version=1),
            partial(api_keys.read_key, connection, ADMIN, uuid4()),
        ):
            with pytest.raises(NotFoundError):
                attempt()
        found = api_keys.find_key(connection, ADMIN, made.public_id)
        assert found == api_keys.find_key(connection, ADMIN, str(made.id))
    assert known(database, made.key).role == "planner"


def test_the_last_use_is_noted_once_a_minute(database: Database) -> None:
    made = make(database)
    first = datetime(2027, 1, 1, 12, 0, 0, tzinfo=UTC)
    noted = []
    for seconds in (0, 59, 61):
        with database.write() as connection:
            api_keys.touch(connection, made.public_id, first + timedelta(seconds=seconds))
        (key,) = listed(database)
        noted.append(key.last_used_at)
        assert key.version == 1
    assert noted == [first, first, first + timedelta(seconds=61)]


def test_keys_are_paged_from_the_oldest_on(database: Database) -> None:
    made = [make(database, name=f"number {number}").id for number in range(5)]
    found: list[UUID] = []
    token = None
    with database.read() as connection:
        for _ in range(3):
            page = api_keys.list_page(connection, ADMIN, page_size=2, page_token=token)
            found += [key.id for key in page.items]
            token = page.next_page_token
    assert found == made
    assert token is None


@pytest.mark.parametrize("position", [1, "x", [], "\0"])
def test_a_forged_page_token_is_refused(sqlite_database: Database, position: object) -> None:
    token = make_token(["api-keys"], position)
    with sqlite_database.read() as connection, pytest.raises(MalformedError):
        api_keys.list_page(connection, ADMIN, page_size=2, page_token=token)


def test_scopes_are_resolved_in_one_order() -> None:
    assert api_keys.resolved_scopes("admin", (), None) == SCOPES
