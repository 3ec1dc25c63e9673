"""Rows of cluster profiles, on both databases."""

from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from service.db import profiles
from service.db.engine import Database
from service.jobs.actors import DEFAULT_TEAM_ID as TEAM

CONTENT = {
    "name": "Production",
    "gpu_type": "H100",
    "cost_center": None,
    "tags": {},
    "defaults": {"cv": 0.1},
    "created_by": "x",
}


def test_a_taken_slug_leaves_the_transaction_usable(database: Database) -> None:
    with database.write() as connection:
        first = profiles.insert_profile(connection, TEAM, slug="a", created_by="x")
        assert first is not None
        assert profiles.insert_profile(connection, TEAM, slug="a", created_by="x") is None
        profiles.insert_revision(connection, TEAM, profile_id=first, revision=1, content=CONTENT)
    with database.read() as connection:
        row = profiles.get_profile(connection, TEAM, "a")
    assert row is not None
    # floats come back with the same bits
    assert (row.revision, row.team, row.defaults) == (1, "default", {"cv": 0.1})


def test_other_violations_are_no_taken_slug(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write() as connection:
        profiles.insert_profile(connection, UUID(int=5), slug="a", created_by="x")
    with database.read() as connection:
        assert not profiles.slug_exists(connection, UUID(int=5), "a")


def test_a_stale_change_changes_nothing(database: Database) -> None:
    with database.write() as connection:
        made = profiles.insert_profile(connection, TEAM, slug="a", created_by="x")
        assert made is not None
        values = {"newest_revision": 2}
        assert profiles.change_profile(connection, made, version=1, values=values)
        assert not profiles.change_profile(connection, made, version=1, values=values)
