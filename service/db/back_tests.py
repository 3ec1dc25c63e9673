"""Rows of back-tests: written once, never changed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import uuid_utils.compat
from msgspec import Struct
from sqlalchemy import Connection, Row, delete, insert, select, tuple_
from sqlalchemy.exc import IntegrityError

from service.db.tables import back_test, calibration, cluster_profile_revision, team

Position = tuple[datetime, UUID]


class BackTestFilter(Struct, frozen=True, kw_only=True):
    """Which back-tests of a team are listed; what is not given does not filter."""

    profile: str | None = None
    revision: int | None = None
    verdict: str | None = None
    run_name: str | None = None
    calibration: UUID | None = None
    observed_after: datetime | None = None
    observed_before: datetime | None = None


def insert_back_test(connection: Connection, row: Mapping[str, Any]) -> UUID | None:
    """Write a back-test; None when the revision was tested with the same source already."""
    test_id = uuid_utils.compat.uuid7()
    try:
        with connection.begin_nested():
            connection.execute(insert(back_test).values(id=test_id, **row))
    except IntegrityError:
        if find_id(connection, row["profile_revision_id"], row["source_key"]) is None:
            raise
        return None
    return test_id


def find_id(connection: Connection, revision_id: UUID, source_key: str) -> UUID | None:
    """The test of a revision with a source, or None."""
    c = back_test.c
    query = select(c.id).where(c.profile_revision_id == revision_id, c.source_key == source_key)
    return connection.scalar(query)


def get_back_test(connection: Connection, team_id: UUID, test_id: UUID) -> Row[Any] | None:
    """One back-test of the team with the team's slug, or None."""
    c = back_test.c
    query = (
        select(back_test, team.c.slug.label("team"))
        .join(team, team.c.id == c.team_id)
        .where(c.id == test_id, c.team_id == team_id)
    )
    return connection.execute(query).one_or_none()


def list_back_tests(
    connection: Connection,
    team_id: UUID,
    wanted: BackTestFilter,
    *,
    before: Position | None,
    limit: int,
) -> list[Row[Any]]:
    """Back-tests without their documents, those observed last first."""
    c = back_test.c
    shown = [column for column in c if column.name != "document"]
    query = select(*shown).where(c.team_id == team_id)
    equal = (
        (c.profile_slug, wanted.profile),
        (c.profile_revision, wanted.revision),
        (c.verdict, wanted.verdict),
        (c.run_name, wanted.run_name),
        (c.calibration_id, wanted.calibration),
    )
    for column, value in equal:
        if value is not None:
            query = query.where(column == value)
    if wanted.observed_after is not None:
        query = query.where(c.observed_at > wanted.observed_after)
    if wanted.observed_before is not None:
        query = query.where(c.observed_at < wanted.observed_before)
    if before is not None:
        query = query.where(tuple_(c.observed_at, c.id) < before)
    return list(connection.execute(query.order_by(c.observed_at.desc(), c.id.desc()).limit(limit)))


def list_series(
    connection: Connection, team_id: UUID, slug: str, defaults_digest: str, *, limit: int
) -> list[Row[Any]]:
    """The last tests of a profile's revisions with this scenario, those observed last first."""
    c = back_test.c
    shown = (
        c.id,
        c.created_at,
        c.run_key,
        c.run_name,
        c.profile_revision,
        c.num_gpus,
        c.observed_at,
        c.ratio,
        c.departure,
        c.verdict,
        c.explained_by,
    )
    query = (
        select(*shown)
        .where(c.team_id == team_id, c.profile_slug == slug, c.defaults_digest == defaults_digest)
        .order_by(c.observed_at.desc(), c.id.desc())
        .limit(limit)
    )
    return list(connection.execute(query))


def delete_back_test(connection: Connection, test_id: UUID, *, version: int) -> bool:
    """Delete the test if it is at the version; whether it was."""
    c = back_test.c
    deleted = connection.execute(delete(back_test).where(c.id == test_id, c.version == version))
    return deleted.rowcount == 1


def get_calibration(connection: Connection, team_id: UUID, calibration_id: UUID) -> Row[Any] | None:
    """A calibration of the team, or None."""
    c = calibration.c
    query = select(calibration).where(c.id == calibration_id, c.team_id == team_id)
    return connection.execute(query).one_or_none()


def provenance_of(connection: Connection, revision_id: UUID) -> dict[str, Any] | None:
    """What a revision was made of; None where somebody wrote it."""
    c = cluster_profile_revision.c
    return connection.scalar(select(c.provenance).where(c.id == revision_id))
