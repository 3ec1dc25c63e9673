"""A calibration becomes a revision of a profile, which names it: which one, and what was taken."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from service.db import calibrations as rows
from service.db.engine import Connection
from service.db.profiles import slug_exists
from service.errors import ConflictError, Fault, FieldFault, ForbiddenError, InvalidError
from service.jobs.actors import Actor
from service.jobs.calibration_documents import AcceptanceIn, CalibrationOut, NewProfile
from service.jobs.calibrations import read_calibration
from service.jobs.documents import escaped, shown
from service.jobs.labels import label_faults, slug_faults, tag_faults
from service.jobs.profile_changes import create_profile, revise_profile
from service.jobs.profile_documents import (
    ProfileIn,
    ProfileOut,
    RevisionIn,
    RevisionOut,
    RevisionProvenance,
)
from service.jobs.profiles import read_profile, read_revision
from service.model.problems import InvalidScenario
from service.model.scenario import apply_overrides, decode_scenario, full


def accept(
    connection: Connection, actor: Actor, calibration_id: UUID, document: AcceptanceIn
) -> RevisionOut:
    """Make the revision: the newest one's inputs with the taken values of the proposal put in.

    Raises `NotFoundError` for no such calibration, `ForbiddenError` for who may not change
    profiles, `InvalidError` with every fault, `PreconditionFailedError` when the profile has
    changed since it was read, `ConflictError` when it is archived, or is there and was to be made.
    """
    if not actor.may("profiles:write"):
        raise ForbiddenError(
            f"to accept a calibration needs the scope profiles:write, which {actor.name} has not"
        )
    # Locked: whoever deletes it meanwhile waits, and then finds it accepted.
    calibration = read_calibration(connection, actor, calibration_id, lock=True)
    faults = slug_faults("/profile", document.profile)
    if faults:
        raise InvalidError(faults[0].detail, errors=faults)
    taken = _taken(calibration, document)
    if slug_exists(connection, actor.team_id, document.profile):
        profile = _revised(connection, actor, calibration, document, taken)
    else:
        profile = _made(connection, actor, calibration, document, taken)
    rows.accept_calibration(
        connection, calibration_id, slug=profile.slug, revision=profile.revision
    )
    return read_revision(connection, actor, profile.slug, profile.revision)


def _revised(
    connection: Connection,
    actor: Actor,
    calibration: CalibrationOut,
    document: AcceptanceIn,
    taken: Mapping[str, Any],
) -> ProfileOut:
    slug = document.profile
    current = read_profile(connection, actor, slug)
    if document.new_profile is not None:
        detail = f"the profile {slug!r} is there already; leave new_profile out to revise it"
        fault = FieldFault(pointer="/profile", code="slug_taken", detail=detail)
        raise ConflictError(detail, errors=[fault])
    if document.profile_version is None:
        raise _fault(
            "/profile_version",
            "missing_version",
            f"the profile {slug!r} is there: send the version of it that you have read",
        )
    revision = RevisionIn(
        name=current.name,
        gpu_type=current.gpu_type,
        cost_center=current.cost_center,
        tags=current.tags,
        defaults=_defaults(current.defaults, document, taken),
    )
    return revise_profile(
        connection,
        actor,
        slug,
        revision,
        version=document.profile_version,
        provenance=_provenance(calibration, current.defaults, document, taken),
    )


def _made(
    connection: Connection,
    actor: Actor,
    calibration: CalibrationOut,
    document: AcceptanceIn,
    taken: Mapping[str, Any],
) -> ProfileOut:
    slug, new = document.profile, document.new_profile
    if new is None:
        raise _fault(
            "/profile",
            "unknown_profile",
            f"there is no cluster profile {slug!r}; to make it, say in new_profile what it is",
        )
    if document.profile_version is not None:
        raise _fault(
            "/profile_version",
            "unknown_profile",
            f"there is no cluster profile {slug!r}, and so no version of it",
        )
    _refuse_bad_labels(new)
    profile = ProfileIn(
        slug=slug,
        name=new.name,
        gpu_type=new.gpu_type,
        cost_center=new.cost_center,
        tags=new.tags,
        defaults=_defaults({}, document, taken),
    )
    return create_profile(
        connection, actor, profile, provenance=_provenance(calibration, {}, document, taken)
    )


def _refuse_bad_labels(new: NewProfile) -> None:
    """At their places in what was sent: the profile has them elsewhere."""
    place = "/new_profile"
    faults = [
        *label_faults(
            {
                f"{place}/name": new.name,
                f"{place}/gpu_type": new.gpu_type,
                f"{place}/cost_center": new.cost_center,
            }
        ),
        *tag_faults(f"{place}/tags", new.tags),
    ]
    if faults:
        raise InvalidError(faults[0].detail, errors=faults)


def _taken(calibration: CalibrationOut, document: AcceptanceIn) -> dict[str, Any]:
    """The proposed values that are wanted, by path."""
    proposed = calibration.findings.proposal.overrides
    if document.take is None:
        if not proposed:
            raise _fault("/take", "not_proposed", "the calibration proposes nothing")
        return dict(proposed)
    faults = [
        FieldFault(
            pointer=f"/take/{position}",
            code="not_proposed",
            detail=f"{shown(path)} is not proposed; proposed are {', '.join(proposed) or 'none'}",
        )
        for position, path in enumerate(document.take)
        if path not in proposed
    ]
    if faults:
        raise InvalidError(faults[0].detail, errors=faults)
    return {path: proposed[path] for path in document.take}


def _defaults(
    base: Mapping[str, Any], document: AcceptanceIn, taken: Mapping[str, Any]
) -> dict[str, Any]:
    """The whole scenario of the revision; what is said beside the proposal wins over it."""
    try:
        with_taken = apply_overrides(base, taken)
        return full(decode_scenario(apply_overrides(with_taken, document.scenario or {})))
    except InvalidScenario as error:
        faults = [_placed(fault, document, list(taken)) for fault in error.problems]
        detail = faults[0].detail if len(faults) == 1 else f"{len(faults)} values are refused"
        raise InvalidError(detail, problem="invalid-scenario", errors=faults) from error


def _placed(fault: Fault, document: AcceptanceIn, taken: Sequence[str]) -> FieldFault:
    """Point at the part of the request that the faulty value came from."""
    parts = fault.pointer.lstrip("/").split("/")
    pointer = "/profile"
    if (path := _over(parts, taken)) is not None:
        pointer = f"/take/{taken.index(path)}" if document.take is not None else ""
    if (path := _over(parts, list(document.scenario or {}))) is not None:
        pointer = f"/scenario/{escaped(path)}"
    return FieldFault(pointer=pointer, code=fault.code, detail=fault.detail)


def _over(parts: Sequence[str], paths: Sequence[str]) -> str | None:
    """The path that the value at `parts` lies at or under, or that lies under it."""
    for path in paths:
        named = path.split(".")
        shared = min(len(named), len(parts))
        if named[:shared] == list(parts[:shared]):
            return path
    return None


def _provenance(
    calibration: CalibrationOut,
    base: Mapping[str, Any],
    document: AcceptanceIn,
    taken: Mapping[str, Any],
) -> RevisionProvenance:
    """Where the revision comes from: the paths that are as the calibration proposed them."""
    made = apply_overrides(apply_overrides(base, taken), document.scenario or {})
    paths = [path for path, value in taken.items() if _lies_at(made, path) == value]
    return RevisionProvenance(
        calibration_id=calibration.id,
        calibration_name=calibration.name,
        source_digest=calibration.source_digest,
        paths=paths,
    )


def _lies_at(scenario: Mapping[str, Any], path: str) -> Any:
    """None where an override has taken away what the path leads through."""
    found: Any = scenario
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _fault(pointer: str, code: str, detail: str) -> InvalidError:
    return InvalidError(detail, errors=[FieldFault(pointer=pointer, code=code, detail=detail)])
