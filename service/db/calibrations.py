"""Calibrations as rows: what a list needs beside the long findings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import uuid_utils.compat
from msgspec import Struct
from sqlalchemy import (
    Connection,
    Row,
    Select,
    Uuid,
    and_,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from service.db.name_search import contains
from service.db.tables import (
    calibration,
    cluster_profile,
    cluster_profile_revision,
    team,
    utc_now,
)

ACCEPTED = "accepted"
PROPOSED = "proposed"
LONG = ("options", "findings")


class CalibrationFilter(Struct, frozen=True, kw_only=True):
    """Which calibrations a list holds; what is not given does not filter."""

    profile: str | None = None
    state: str | None = None
    name_contains: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


def insert_calibration(connection: Connection, team_id: UUID, values: Mapping[str, Any]) -> UUID:
    """Write a proposed calibration; its id."""
    calibration_id = uuid_utils.compat.uuid7()
    connection.execute(
        insert(calibration).values(id=calibration_id, team_id=team_id, state=PROPOSED, **values)
    )
    return calibration_id


def get_calibration(
    connection: Connection, team_id: UUID, calibration_id: UUID, *, lock: bool = False
) -> Row[Any] | None:
    """The calibration of the team with its findings, or None; with `lock` until the end."""
    columns = calibration.c
    query = (
        select(calibration, team.c.slug.label("team"))
        .join(team, team.c.id == columns.team_id)
        .where(columns.team_id == team_id, columns.id == calibration_id)
    )
    query = query.with_for_update(of=calibration) if lock else query
    return connection.execute(query).one_or_none()


def list_calibrations(
    connection: Connection,
    team_id: UUID,
    wanted: CalibrationFilter,
    *,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Row[Any]]:
    """Calibrations without their findings, newest first, after the keyset position `before`."""
    columns = calibration.c
    shown = [column for column in columns if column.name not in LONG]
    query = select(*shown).where(columns.team_id == team_id)
    if before is not None:
        query = query.where(
            or_(
                columns.created_at < before[0],
                and_(columns.created_at == before[0], columns.id < before[1]),
            )
        )
    if wanted.profile is not None:
        of_profile = columns.profile_slug == wanted.profile
        made = _made_into(team_id, wanted.profile)
        query = query.where(or_(of_profile, columns.id.in_(made)))
    if wanted.state is not None:
        query = query.where(columns.state == wanted.state)
    if wanted.name_contains is not None:
        query = query.where(contains(connection, columns.name, wanted.name_contains))
    if wanted.created_after is not None:
        query = query.where(columns.created_at > wanted.created_after)
    if wanted.created_before is not None:
        query = query.where(columns.created_at < wanted.created_before)
    query = query.order_by(columns.created_at.desc(), columns.id.desc()).limit(limit)
    return list(connection.execute(query))


def _made_into(team_id: UUID, slug: str) -> Select[tuple[UUID]]:
    """Calibrations that a revision of the profile was made of: each may be behind several."""
    of = cluster_profile_revision.c
    # Without hyphens both databases read it as an id
    text = func.replace(of.provenance["calibration_id"].as_string(), "-", "")
    return (
        select(cast(text, Uuid))
        .join(cluster_profile, cluster_profile.c.id == of.profile_id)
        .where(cluster_profile.c.team_id == team_id, cluster_profile.c.slug == slug)
        .where(of.provenance.is_not(None))
    )


def accept_calibration(
    connection: Connection, calibration_id: UUID, *, slug: str, revision: int
) -> None:
    """Note which revision was made of a calibration that is locked."""
    columns = calibration.c
    connection.execute(
        update(calibration)
        .where(columns.id == calibration_id)
        .values(
            state=ACCEPTED,
            accepted_slug=slug,
            accepted_revision=revision,
            version=columns.version + 1,
            updated_at=utc_now(),
        )
    )


def delete_calibration(connection: Connection, calibration_id: UUID, *, version: int) -> bool:
    """Delete it; False when its version is no longer the given one."""
    columns = calibration.c
    deleted = connection.execute(
        delete(calibration).where(columns.id == calibration_id, columns.version == version)
    )
    return deleted.rowcount == 1
