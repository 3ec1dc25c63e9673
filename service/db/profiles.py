"""Cluster profiles and their immutable revisions."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import uuid_utils.compat
from sqlalchemy import Connection, Row, Select, insert, select, update
from sqlalchemy.exc import IntegrityError

from service.db.tables import cluster_profile, cluster_profile_revision, team, utc_now


class ProfileFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which profiles a list holds; what is not given does not filter."""

    gpu_type: str | None = None
    cost_center: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None
    include_archived: bool = False


def insert_profile(
    connection: Connection, team_id: UUID, *, slug: str, created_by: str
) -> UUID | None:
    """Write a profile without revisions; None when the team already has the slug."""
    profile_id = uuid_utils.compat.uuid7()
    try:
        with connection.begin_nested():
            connection.execute(
                insert(cluster_profile).values(
                    id=profile_id, team_id=team_id, slug=slug, created_by=created_by
                )
            )
    except IntegrityError:
        if not slug_exists(connection, team_id, slug):
            raise
        return None
    return profile_id


def slug_exists(connection: Connection, team_id: UUID, slug: str) -> bool:
    """Whether the team has a profile, archived or not, with this slug."""
    columns = cluster_profile.c
    query = select(columns.id).where(columns.team_id == team_id, columns.slug == slug)
    return connection.execute(query).first() is not None


def archived_slugs(connection: Connection, team_id: UUID, slugs: Collection[str]) -> set[str]:
    """Which of them are those of archived profiles."""
    columns = cluster_profile.c
    query = select(columns.slug).where(
        columns.team_id == team_id,
        columns.slug.in_(sorted(slugs)),
        columns.archived_at.is_not(None),
    )
    return set(connection.scalars(query))


def insert_revision(
    connection: Connection,
    team_id: UUID,
    *,
    profile_id: UUID,
    revision: int,
    content: Mapping[str, Any],
) -> None:
    """Write one revision; `content` holds name, gpu_type, cost_center, tags, defaults, author."""
    connection.execute(
        insert(cluster_profile_revision).values(
            team_id=team_id, profile_id=profile_id, revision=revision, **content
        )
    )


def change_profile(
    connection: Connection, profile_id: UUID, *, version: int, values: Mapping[str, Any]
) -> bool:
    """Change the profile's row; False when its version is no longer the given one."""
    columns = cluster_profile.c
    changed = connection.execute(
        update(cluster_profile)
        .where(columns.id == profile_id, columns.version == version)
        .values(version=version + 1, updated_at=utc_now(), **values)
    )
    return changed.rowcount == 1


def get_profile(connection: Connection, team_id: UUID, slug: str) -> Row[Any] | None:
    """The profile of the team with its newest revision, or None."""
    query = _with_newest_revision(team_id).where(cluster_profile.c.slug == slug)
    return connection.execute(query).one_or_none()


def get_revision(
    connection: Connection, team_id: UUID, slug: str, revision: int
) -> Row[Any] | None:
    """One revision of the team's profile, or None."""
    query = _revisions(team_id, slug).where(cluster_profile_revision.c.revision == revision)
    return connection.execute(query).one_or_none()


def list_revisions(
    connection: Connection, team_id: UUID, slug: str, *, before: int | None, limit: int
) -> list[Row[Any]]:
    """Revisions of the profile, newest first, older than `before`."""
    column = cluster_profile_revision.c.revision
    query = _revisions(team_id, slug).order_by(column.desc()).limit(limit)
    return list(connection.execute(query if before is None else query.where(column < before)))


def list_profiles(
    connection: Connection,
    team_id: UUID,
    wanted: ProfileFilter,
    *,
    after: str | None,
    limit: int,
) -> list[Row[Any]]:
    """Profiles with their newest revision, by slug, after the keyset position `after`."""
    profile, revision = cluster_profile.c, cluster_profile_revision.c
    query = _with_newest_revision(team_id)
    if after is not None:
        query = query.where(profile.slug > after)
    if not wanted.include_archived:
        query = query.where(profile.archived_at.is_(None))
    if wanted.gpu_type is not None:
        query = query.where(revision.gpu_type == wanted.gpu_type)
    if wanted.cost_center is not None:
        query = query.where(revision.cost_center == wanted.cost_center)
    for key, value in wanted.tags:
        query = query.where(revision.tags[key].as_string() == value)
    if wanted.created_after is not None:
        query = query.where(profile.created_at > wanted.created_after)
    if wanted.created_before is not None:
        query = query.where(profile.created_at < wanted.created_before)
    return list(connection.execute(query.order_by(profile.slug).limit(limit)))


def _with_newest_revision(team_id: UUID) -> Select[Any]:
    profile, revision = cluster_profile.c, cluster_profile_revision.c
    return (
        select(
            cluster_profile,
            revision.id.label("revision_id"),
            revision.revision,
            revision.name,
            revision.gpu_type,
            revision.cost_center,
            revision.tags,
            revision.defaults,
            revision.provenance,
            team.c.slug.label("team"),
        )
        .join(
            cluster_profile_revision,
            (revision.profile_id == profile.id) & (revision.revision == profile.newest_revision),
        )
        .join(team, team.c.id == profile.team_id)
        .where(profile.team_id == team_id)
    )


def _revisions(team_id: UUID, slug: str) -> Select[Any]:
    profile = cluster_profile.c
    return (
        select(cluster_profile_revision, profile.slug, profile.archived_at)
        .join(cluster_profile, profile.id == cluster_profile_revision.c.profile_id)
        .where(profile.team_id == team_id, profile.slug == slug)
    )
