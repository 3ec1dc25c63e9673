"""Migration 0009: keys that hold all of their role get the new scopes, and narrowed ones do not."""

from typing import Any

import msgspec
from sqlalchemy import text

from service.db import migrate
from service.db.engine import Database
from service.jobs.actors import DEFAULT_TEAM_ID
from service.jobs.scopes import ROLE_SCOPES, ROLES, Role, Scope
from tests.api.access_keys import key_of

NEW: set[Scope] = {"calibrations:read", "calibrations:write"}


def scopes(database: Database) -> list[set[str]]:
    with database.read() as connection:
        query = text("SELECT scopes FROM api_key ORDER BY created_at, id")
        rows: list[Any] = [row[0] for row in connection.execute(query)]
    return [set(row if isinstance(row, list) else decoded(row)) for row in rows]


def decoded(value: str) -> list[str]:
    found: list[str] = msgspec.json.decode(value)
    return found


def before(role: Role) -> set[Scope]:
    return set(ROLE_SCOPES[role]) - NEW


def test_whole_keys_are_widened_and_narrowed_back(database: Database, database_url: str) -> None:
    for role in ROLES:
        key_of(database, role, DEFAULT_TEAM_ID, before(role))
    key_of(database, "planner", DEFAULT_TEAM_ID, before("planner") | {"costs:read"})
    key_of(database, "planner", DEFAULT_TEAM_ID, before("planner") - {"profiles:write"})
    database.close()
    migrate.downgrade(database_url, "0008")
    migrate.upgrade(database_url)
    reopened = Database(database_url)
    whole: list[set[Scope]] = [set(ROLE_SCOPES[role]) for role in ROLES]
    assert scopes(reopened) == [
        *whole,
        set(ROLE_SCOPES["planner"]) | {"costs:read"},
        before("planner") - {"profiles:write"},
    ]
    reopened.close()
    migrate.downgrade(database_url, "0008")
    reopened = Database(database_url)
    assert not [found & NEW for found in scopes(reopened) if found & NEW]
    reopened.close()
