"""Calibrations: what observed timings told, stored with where they came from."""

import hashlib
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from service.calibration.findings import Findings
from service.calibration.options import CalibrationOptions
from service.calibration.prediction import Prediction
from service.calibration.refusals import Fault, TimingsRefusedError
from service.db import calibrations as rows
from service.db.calibrations import CalibrationFilter
from service.db.engine import Connection, Row
from service.errors import (
    ConflictError,
    FieldFault,
    InvalidError,
    NotFoundError,
    PreconditionFailedError,
)
from service.jobs import audit, back_tests
from service.jobs.actors import Actor
from service.jobs.calibration_documents import (
    AcceptedAs,
    CalibrationOut,
    CalibrationPage,
    CalibrationPreview,
    CalibrationSummary,
)
from service.jobs.documents import escaped
from service.jobs.labels import label_faults
from service.jobs.page_tokens import make_token, read_token
from service.jobs.profiles import ResolvedProfile
from service.model import MODEL_VERSION


class Found(Struct, frozen=True, kw_only=True):
    """What was found in files, before it is stored."""

    name: str
    profile: ResolvedProfile | None
    options: CalibrationOptions
    findings: Findings


def source_digest_of(findings: Findings) -> str:
    """Digest of the files by their SHA-256s; the order in which they were sent plays no part."""
    lines = sorted(f"{file.sha256}  {file.name}\n" for file in findings.source.files)
    return "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()


def refuse_bad_name(name: str) -> None:
    """Raise `InvalidError` for a name that cannot be shown as it is."""
    faults = label_faults({"/name": name})
    if faults:
        raise InvalidError(faults[0].detail, errors=faults)


def refusal(error: TimingsRefusedError) -> InvalidError:
    """Timings that cannot be used, as what a caller is told: every reason, at its file or field."""
    faults = [
        FieldFault(pointer=_pointer(fault), code=fault.code, detail=fault.detail)
        for fault in error.faults
    ]
    detail = (
        faults[0].detail if len(faults) == 1 else f"{len(faults)} reasons to refuse the timings"
    )
    return InvalidError(detail, problem="refused-timings", errors=faults)


def preview(found: Found) -> CalibrationPreview:
    """What would be stored."""
    return CalibrationPreview(
        name=found.name,
        profile=_reference(found.profile),
        options=found.options,
        findings=found.findings,
        source_digest=source_digest_of(found.findings),
        model_version=MODEL_VERSION,
    )


def foretold(found: Found) -> Prediction | None:
    """What the profile predicts of the timings: None where it is not named, or cannot tell."""
    if found.profile is None:
        return None
    return back_tests.foretold(found.profile, found.name, found.options, found.findings)


def store(
    connection: Connection, actor: Actor, found: Found, predicted: Prediction | None = None
) -> CalibrationOut:
    """Store what was found, and hold what the profile predicted of it (`foretold`) against it."""
    findings, profile = found.findings, found.profile
    verdict = findings.overlap.verdict if findings.overlap is not None else None
    healthy = findings.healthy
    calibration_id = rows.insert_calibration(
        connection,
        actor.team_id,
        {
            "name": found.name,
            "created_by": actor.name,
            "profile_revision_id": None if profile is None else profile.revision_id,
            "profile_slug": None if profile is None else profile.slug,
            "profile_revision": None if profile is None else profile.revision,
            "options": _json(found.options),
            "findings": _json(findings),
            "source_digest": source_digest_of(findings),
            "model_version": MODEL_VERSION,
            "num_steps": findings.source.num_steps,
            "num_ranks": findings.source.num_ranks,
            "compute_ms": findings.compute_ms.value,
            "persistent_cv": None if healthy.persistent_cv is None else healthy.persistent_cv.value,
            "transient_cv": None if healthy.transient_cv is None else healthy.transient_cv.value,
            "num_outliers": len(findings.outliers),
            "slowest_to_median_mean_ratio": findings.gaps.slowest_to_median_mean_ratio.value,
            "overlap_verdict": verdict,
        },
    )
    stored = read_calibration(connection, actor, calibration_id)
    audit.record(
        connection,
        actor,
        action="create_calibration",
        subject=f"calibration/{calibration_id}",
        after=stored,
    )
    if stored.profile is not None and predicted is not None:
        back_tests.record_from_calibration(connection, actor, stored.id, stored.profile, predicted)
    return stored


def read_calibration(
    connection: Connection, actor: Actor, calibration_id: UUID, *, lock: bool = False
) -> CalibrationOut:
    """The calibration with its findings; raises `NotFoundError`."""
    row = rows.get_calibration(connection, actor.team_id, calibration_id, lock=lock)
    if row is None:
        raise _no_calibration(calibration_id)
    return CalibrationOut(
        id=row.id,
        name=row.name,
        state=row.state,
        profile=_profile_of(row),
        options=msgspec.convert(row.options, CalibrationOptions),
        findings=msgspec.convert(row.findings, Findings),
        source_digest=row.source_digest,
        model_version=row.model_version,
        accepted_as=_accepted_as(row),
        team=row.team,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        version=row.version,
    )


def list_page(
    connection: Connection,
    actor: Actor,
    wanted: CalibrationFilter,
    *,
    page_size: int,
    page_token: str | None,
) -> CalibrationPage:
    """A page of calibrations, newest first; raises `MalformedError` for a foreign token."""
    query = ["calibrations", msgspec.to_builtins(wanted)]
    before = read_token(page_token, query, tuple[datetime, UUID])
    found = rows.list_calibrations(
        connection, actor.team_id, wanted, before=before, limit=page_size + 1
    )
    shown = found[:page_size]
    more = len(found) > page_size
    return CalibrationPage(
        items=[_summary(row) for row in shown],
        next_page_token=make_token(query, (shown[-1].created_at, shown[-1].id)) if more else None,
    )


def delete_calibration(
    connection: Connection, actor: Actor, calibration_id: UUID, *, version: int
) -> None:
    """Delete a calibration that no profile names.

    Raises `NotFoundError`, `PreconditionFailedError`, `ConflictError` (`accepted-calibration`).
    """
    current = read_calibration(connection, actor, calibration_id, lock=True)
    if current.accepted_as is not None:
        accepted = current.accepted_as
        raise ConflictError(
            f"the calibration {current.name!r} stands behind {accepted.slug}@{accepted.revision} "
            "and cannot be deleted",
            problem="accepted-calibration",
        )
    if current.version != version or not rows.delete_calibration(
        connection, calibration_id, version=version
    ):
        raise PreconditionFailedError(
            f"the calibration {current.name!r} has changed since it was read; read it again"
        )
    audit.record(
        connection,
        actor,
        action="delete_calibration",
        subject=f"calibration/{calibration_id}",
        before=current,
    )


def _no_calibration(calibration_id: UUID) -> NotFoundError:
    return NotFoundError(f"there is no calibration {calibration_id}")


def _pointer(fault: Fault) -> str:
    if fault.file is not None:
        line = "" if fault.line is None else f"/{fault.line}"
        return f"/file/{escaped(fault.file)}{line}"
    return "" if fault.field is None else f"/{escaped(fault.field)}"


def _reference(profile: ResolvedProfile | None) -> str | None:
    return None if profile is None else f"{profile.slug}@{profile.revision}"


def _profile_of(row: Row[Any]) -> str | None:
    return None if row.profile_slug is None else f"{row.profile_slug}@{row.profile_revision}"


def _accepted_as(row: Row[Any]) -> AcceptedAs | None:
    if row.accepted_slug is None:
        return None
    return AcceptedAs(slug=row.accepted_slug, revision=row.accepted_revision)


def _summary(row: Row[Any]) -> CalibrationSummary:
    made: dict[str, Any] = {"profile": _profile_of(row), "accepted_as": _accepted_as(row)}
    names = [name for name in CalibrationSummary.__struct_fields__ if name not in made]
    return CalibrationSummary(**made, **{name: getattr(row, name) for name in names})


def _json(document: Any) -> Any:
    """Builtins as they are stored; a number that is none would be a defect, and is found here."""
    plain = msgspec.json.decode(msgspec.json.encode(document))
    msgspec.convert(plain, type(document))
    return plain
