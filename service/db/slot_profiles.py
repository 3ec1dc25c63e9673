"""Which revision of a profile was the newest at a moment."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

import msgspec
from sqlalchemy import Connection, case, func, select

from service.db.tables import cluster_profile, cluster_profile_revision


class RevisionThen(msgspec.Struct, frozen=True, kw_only=True):
    """The revision to take; `existed`: whether any did by then, else it is the first of all."""

    revision: int
    existed: bool


def revisions_at(
    connection: Connection, team_id: UUID, slugs: Collection[str], at: datetime
) -> dict[str, RevisionThen]:
    """For each of the team's profiles: the revision that was the newest at the moment."""
    profile, revision = cluster_profile.c, cluster_profile_revision.c
    newest = func.max(case((revision.created_at <= at, revision.revision)))
    rows = connection.execute(
        select(profile.slug, newest.label("newest"), func.min(revision.revision).label("first"))
        .join(cluster_profile_revision, revision.profile_id == profile.id)
        .where(profile.team_id == team_id, profile.slug.in_(slugs))
        .group_by(profile.slug)
    )
    return {
        row.slug: RevisionThen(revision=row.newest or row.first, existed=row.newest is not None)
        for row in rows
    }
