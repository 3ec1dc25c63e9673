"""Cluster profiles: named scenario defaults of a real cluster, in immutable revisions.

Reading them; `profile_changes` writes them.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from service.db import profiles as rows
from service.db.engine import Connection, Row
from service.db.profiles import ProfileFilter
from service.errors import InvalidError, MalformedError, NotFoundError
from service.jobs.actors import Actor
from service.jobs.labels import is_slug
from service.jobs.page_tokens import make_token, read_token
from service.jobs.profile_documents import (
    ProfileOut,
    ProfilePage,
    RevisionOut,
    RevisionPage,
    RevisionProvenance,
)

MAX_REVISION = 2**31 - 1


class ResolvedProfile(Struct, frozen=True, kw_only=True):
    """The revision that `slug` or `slug@revision` stands for."""

    revision_id: UUID
    slug: str
    revision: int
    name: str
    gpu_type: str
    cost_center: str | None
    defaults: dict[str, Any]


def read_profile(connection: Connection, actor: Actor, slug: str) -> ProfileOut:
    """The profile with its newest revision; raises `NotFoundError`."""
    row = rows.get_profile(connection, actor.team_id, slug) if is_slug(slug) else None
    if row is None:
        raise _no_profile(slug)
    return _profile_out(row)


def list_page(
    connection: Connection,
    actor: Actor,
    wanted: ProfileFilter,
    *,
    page_size: int,
    page_token: str | None,
) -> ProfilePage:
    """A page of profiles by slug; raises `MalformedError` for a foreign token."""
    query = ["profiles", msgspec.to_builtins(wanted)]
    after = read_token(page_token, query, str)
    if after is not None and not is_slug(after):
        raise MalformedError("page_token is none of ours")
    found = rows.list_profiles(connection, actor.team_id, wanted, after=after, limit=page_size + 1)
    shown = found[:page_size]
    return ProfilePage(
        items=[_profile_out(row) for row in shown],
        next_page_token=make_token(query, shown[-1].slug) if len(found) > page_size else None,
    )


def read_revision(connection: Connection, actor: Actor, slug: str, revision: int) -> RevisionOut:
    """One revision; raises `NotFoundError`."""
    return _revision_out(_revision_row(connection, actor, slug, revision))


def list_revisions(
    connection: Connection, actor: Actor, slug: str, *, page_size: int, page_token: str | None
) -> RevisionPage:
    """A page of revisions, newest first; raises `NotFoundError`, `MalformedError`."""
    read_profile(connection, actor, slug)
    query = ["revisions", slug]
    before = read_token(page_token, query, int)
    if before is not None and not 1 <= before <= MAX_REVISION:
        raise MalformedError("page_token is none of ours")
    found = rows.list_revisions(connection, actor.team_id, slug, before=before, limit=page_size + 1)
    shown = found[:page_size]
    return RevisionPage(
        items=[_revision_out(row) for row in shown],
        next_page_token=make_token(query, shown[-1].revision) if len(found) > page_size else None,
    )


def resolve_profile(connection: Connection, actor: Actor, reference: str) -> ResolvedProfile:
    """The revision that `slug` (the newest) or `slug@revision` stands for.

    Raises `NotFoundError` (problem `unknown-profile` or `unknown-revision`) and `InvalidError`
    (`malformed-profile-reference` or `archived-profile`).
    """
    slug, at, number = reference.partition("@")
    if not is_slug(slug) or (at and not (number.isascii() and number.isdecimal())):
        raise InvalidError(
            f"{reference!r} is no profile: write slug or slug@revision, e.g. prod-h100@3",
            problem="malformed-profile-reference",
        )
    newest = rows.get_profile(connection, actor.team_id, slug)
    if newest is None:
        raise _no_profile(slug)
    if newest.archived_at is not None:
        raise InvalidError(
            f"the profile {slug!r} is archived since {newest.archived_at:%Y-%m-%d} and takes no "
            "new work",
            problem="archived-profile",
        )
    # The digits are bounded before they become a number: int() of a long text is slow.
    revision = int(number) if at and len(number) <= 10 else 0
    row = _revision_row(connection, actor, slug, revision) if at else None
    return ResolvedProfile(
        revision_id=newest.revision_id if row is None else row.id,
        slug=slug,
        revision=(row or newest).revision,
        name=(row or newest).name,
        gpu_type=(row or newest).gpu_type,
        cost_center=(row or newest).cost_center,
        defaults=(row or newest).defaults,
    )


def _revision_row(connection: Connection, actor: Actor, slug: str, revision: int) -> Row[Any]:
    profile = rows.get_profile(connection, actor.team_id, slug) if is_slug(slug) else None
    if profile is None:
        raise _no_profile(slug)
    row = (
        rows.get_revision(connection, actor.team_id, slug, revision)
        if 1 <= revision <= MAX_REVISION
        else None
    )
    if row is None:
        raise NotFoundError(
            f"the profile {slug!r} has no such revision; the newest is {profile.revision}",
            problem="unknown-revision",
        )
    return row


def _no_profile(slug: str) -> NotFoundError:
    return NotFoundError(f"there is no cluster profile {slug!r}", problem="unknown-profile")


def _profile_out(row: Row[Any]) -> ProfileOut:
    return ProfileOut(**_fields(row, ProfileOut.__struct_fields__))


def _revision_out(row: Row[Any]) -> RevisionOut:
    return RevisionOut(**_fields(row, RevisionOut.__struct_fields__))


def _fields(row: Row[Any], names: Iterable[str]) -> dict[str, Any]:
    found = {name: getattr(row, name) for name in names}
    if found["provenance"] is not None:
        found["provenance"] = msgspec.convert(found["provenance"], RevisionProvenance)
    return found
