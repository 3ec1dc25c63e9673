"""Changes of cluster profiles: create, revise, archive and restore; no revision ever changes."""

from typing import Any

import msgspec

from service.db import profiles as rows
from service.db.engine import Connection
from service.db.tables import utc_now
from service.errors import ConflictError, FieldFault, InvalidError, PreconditionFailedError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.labels import label_faults, slug_faults, tag_faults
from service.jobs.profile_documents import ProfileIn, ProfileOut, RevisionIn, RevisionProvenance
from service.jobs.profiles import read_profile
from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario, full


def create_profile(
    connection: Connection,
    actor: Actor,
    document: ProfileIn,
    provenance: RevisionProvenance | None = None,
) -> ProfileOut:
    """Store a profile with its first revision.

    Raises `InvalidError` with every fault, `ConflictError` when the team has the slug already.
    """
    content = _content(actor, document, slug_faults("/slug", document.slug))
    profile_id = rows.insert_profile(
        connection, actor.team_id, slug=document.slug, created_by=actor.name
    )
    if profile_id is None:
        detail = f"the slug {document.slug!r} is already taken by another profile of the team"
        raise ConflictError(
            detail, errors=[FieldFault(pointer="/slug", code="slug_taken", detail=detail)]
        )
    rows.insert_revision(
        connection,
        actor.team_id,
        profile_id=profile_id,
        revision=1,
        content=content | _stored(provenance),
    )
    return _recorded(connection, actor, "create_profile", document.slug, of=provenance)


def revise_profile(
    connection: Connection,
    actor: Actor,
    slug: str,
    document: RevisionIn,
    *,
    version: int,
    provenance: RevisionProvenance | None = None,
) -> ProfileOut:
    """Store the next revision of the profile that still has this version.

    Raises `NotFoundError`, `PreconditionFailedError`, `ConflictError` when it is archived,
    `InvalidError` with every fault.
    """
    content = _content(actor, document, [])
    current = _at_version(connection, actor, slug, version)
    if current.archived_at is not None:
        raise ConflictError(f"the profile {slug!r} is archived; take it back first to revise it")
    revision = current.revision + 1
    _change(connection, current, newest_revision=revision)
    rows.insert_revision(
        connection,
        actor.team_id,
        profile_id=current.id,
        revision=revision,
        content=content | _stored(provenance),
    )
    return _recorded(connection, actor, "revise_profile", slug, before=current, of=provenance)


def _stored(provenance: RevisionProvenance | None) -> dict[str, Any]:
    return {"provenance": None if provenance is None else msgspec.to_builtins(provenance)}


def archive_profile(connection: Connection, actor: Actor, slug: str, *, version: int) -> ProfileOut:
    """Refuse the profile in new batches from now on; it can still be read."""
    current = _at_version(connection, actor, slug, version)
    if current.archived_at is not None:
        return current
    _change(connection, current, archived_at=utc_now())
    return _recorded(connection, actor, "archive_profile", slug, before=current)


def restore_profile(connection: Connection, actor: Actor, slug: str, *, version: int) -> ProfileOut:
    """Take an archived profile back into use."""
    current = _at_version(connection, actor, slug, version)
    if current.archived_at is None:
        return current
    _change(connection, current, archived_at=None)
    return _recorded(connection, actor, "restore_profile", slug, before=current)


def _recorded(
    connection: Connection,
    actor: Actor,
    action: str,
    slug: str,
    *,
    before: ProfileOut | None = None,
    of: RevisionProvenance | None = None,
) -> ProfileOut:
    """The profile as it is now, with its change in the audit trail.

    What comes from a calibration is its acceptance, whatever it does to the profile.
    """
    profile = read_profile(connection, actor, slug)
    audit.record(
        connection,
        actor,
        action=action if of is None else "accept_calibration",
        subject=f"cluster-profile/{slug}",
        before=before,
        after=profile,
        detail=None if of is None else f"calibration {of.calibration_id}",
    )
    return profile


def _content(actor: Actor, document: RevisionIn, faults: list[FieldFault]) -> dict[str, Any]:
    """The columns of the revision; raises `InvalidError` with `faults` and all others."""
    found = [
        *faults,
        *label_faults(
            {
                "/name": document.name,
                "/gpu_type": document.gpu_type,
                "/cost_center": document.cost_center,
            }
        ),
        *tag_faults("/tags", document.tags),
    ]
    defaults: dict[str, Any] = {}
    try:
        defaults = full(decode_scenario(document.defaults))
    except InvalidScenario as error:
        found += [
            FieldFault(pointer=f"/defaults{fault.pointer}", code=fault.code, detail=fault.detail)
            for fault in error.problems
        ]
    if found:
        num = f"{len(found)} fields break" if len(found) > 1 else "1 field breaks"
        raise InvalidError(f"{num} a rule of cluster profiles", errors=found)
    return {
        "name": document.name,
        "gpu_type": document.gpu_type,
        "cost_center": document.cost_center,
        "tags": document.tags,
        "defaults": defaults,
        "created_by": actor.name,
    }


def _at_version(connection: Connection, actor: Actor, slug: str, version: int) -> ProfileOut:
    current = read_profile(connection, actor, slug)
    if current.version != version:
        raise _stale(current)
    return current


def _change(connection: Connection, current: ProfileOut, **values: object) -> None:
    if not rows.change_profile(connection, current.id, version=current.version, values=values):
        raise _stale(current)


def _stale(current: ProfileOut) -> PreconditionFailedError:
    return PreconditionFailedError(
        f"the profile {current.slug!r} has changed since it was read; read it again"
    )
