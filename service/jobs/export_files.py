"""Use cases of exported files: ask for one, look at it, read its bytes, delete it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
import uuid_utils.compat
from msgspec import Struct

from service.db import export_files
from service.db.engine import Connection, Database, Row
from service.errors import (
    ConflictError,
    FieldFault,
    InvalidError,
    MalformedError,
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
)
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.cost_access import require_costs
from service.jobs.export_documents import ExportIn, ExportOut, Sidecar
from service.jobs.exports import check, checked
from service.reports.export import EXPORTERS

KEPT_DAYS: Final = 7
MAX_UNFINISHED: Final = 100


class StoredFile(Struct, frozen=True, kw_only=True):
    """A file that is there: what its bytes are sent with."""

    id: UUID
    num_bytes: int
    sha256: str
    media_type: str
    file_name: str


def create(connection: Connection, actor: Actor, query: ExportIn) -> ExportOut:
    """Ask for a file; it is made in the background.

    It shows money if the actor may see it, and then only to those who may.

    Raises what `exports.check` raises, but `InvalidError` for all that is wrong with the filters,
    and `UnavailableError` when too many files wait. What only the rows can tell (too many to
    sort) ends the file with its `failure`.
    """
    waiting = export_files.num_unfinished(connection, actor.team_id)
    if waiting >= MAX_UNFINISHED:
        raise UnavailableError(
            f"{waiting} files wait or are being made already, the limit is {MAX_UNFINISHED}",
            problem="queue-full",
        )
    query = checked(query)
    try:
        check(connection, actor, query)
    except MalformedError as error:
        # In a body it is readable and breaks a rule; only in a query it cannot be read.
        fault = FieldFault(pointer="", code="invalid_filter", detail=error.detail)
        raise InvalidError(error.detail, errors=[fault]) from None
    now = datetime.now(UTC)
    export_id = uuid_utils.compat.uuid7()
    export_files.insert_file(
        connection,
        {
            "id": export_id,
            "team_id": actor.team_id,
            "created_at": now,
            "created_by": actor.name,
            "updated_at": now,
            "version": 1,
            "state": "queued",
            "format": query.format,
            "query": msgspec.to_builtins(query),
            "with_costs": actor.sees_costs,
        },
    )
    export = get(connection, actor, export_id)
    audit.record(
        connection, actor, action="create_export", subject=f"export/{export_id}", after=export
    )
    return export


def get(connection: Connection, actor: Actor, export_id: UUID) -> ExportOut:
    """One file; raises `NotFoundError`.

    Of a file with costs only those who see money learn more than its state: the rows found by a
    filter on cost, the bytes of the amounts and the SHA-256 that proves a guess tell of it too.
    """
    row = _require(connection, actor, export_id)
    shown = _out(row)
    return shown if _is_open(row, actor) else _withheld(shown)


def _out(row: Row[Any]) -> ExportOut:
    is_there = row.state == "succeeded"
    return ExportOut(
        id=row.id,
        state=row.state,
        format=row.format,
        query=row.query,
        rows=row.num_rows,
        bytes=row.num_bytes,
        sha256=row.sha256,
        failure=row.failure,
        created_at=row.created_at,
        created_by=row.created_by,
        running_at=row.running_at,
        ended_at=row.ended_at,
        expires_at=row.expires_at,
        content_url=f"/v1/exports/{row.id}/content" if is_there else None,
        sidecar_url=f"/v1/exports/{row.id}/sidecar" if is_there else None,
        with_costs=row.with_costs,
        version=row.version,
    )


def _withheld(export: ExportOut) -> ExportOut:
    failure = None if export.failure is None else "told only to those with the scope costs:read"
    return msgspec.structs.replace(
        export,
        query=None,
        rows=None,
        bytes=None,
        sha256=None,
        failure=failure,
        content_url=None,
        sidecar_url=None,
    )


def _is_open(row: Row[Any], actor: Actor) -> bool:
    """Whether the actor may read the file, by what the actor may do now."""
    return actor.sees_costs or not row.with_costs


def sidecar(connection: Connection, actor: Actor, export_id: UUID) -> Sidecar:
    """What the file holds; raises as `stored_file` does."""
    return msgspec.convert(_require_file(connection, actor, export_id).sidecar, Sidecar)


def stored_file(connection: Connection, actor: Actor, export_id: UUID) -> StoredFile:
    """The file.

    Raises `NotFoundError`, `ForbiddenError` when it holds money that the actor may not see, and
    `ConflictError` when it is not or never made.
    """
    row = _require_file(connection, actor, export_id)
    exporter = EXPORTERS[row.format]
    return StoredFile(
        id=row.id,
        num_bytes=row.num_bytes,
        sha256=row.sha256,
        media_type=exporter.media_type,
        file_name=file_name(msgspec.convert(row.query, ExportIn)),
    )


def file_name(query: ExportIn) -> str:
    """What a download is called."""
    what = "results" if query.comparison is None else "comparison"
    return f"trainard-{what}.{EXPORTERS[query.format].extension}"


def content(database: Database, file: StoredFile, first: int, stop: int) -> Iterator[bytes]:
    """The bytes [first, stop) of the file, part by part.

    Each part is read in a transaction of its own, so that a slow reader holds nothing. Raises
    `NotFoundError` when the file is deleted meanwhile.
    """
    while first < stop:
        with database.read() as connection:
            found = export_files.read_part(connection, file.id, first)
        if found is None:
            raise NotFoundError(f"the export {file.id} was deleted while it was read")
        begin, data = found
        part = data[first - begin : stop - begin]
        first += len(part)
        yield part


def delete(connection: Connection, actor: Actor, export_id: UUID, *, expected_version: int) -> None:
    """Delete a file, or stop making it: from this transaction on nobody sees it.

    Its bytes are taken away in the background. Raises `NotFoundError` and
    `PreconditionFailedError`.
    """
    before = get(connection, actor, export_id)
    if not export_files.change_file(
        connection,
        export_id,
        version=expected_version,
        states=(*export_files.UNFINISHED, *export_files.ENDED),
        state=export_files.DELETING,
        enqueued_version=None,
    ):
        # It may have been changed or deleted since it was read above.
        current = get(connection, actor, export_id)
        raise PreconditionFailedError(
            f"export {export_id} is at version {current.version}, not {expected_version}"
        )
    audit.record(
        connection, actor, action="delete_export", subject=f"export/{export_id}", before=before
    )


def expiry(now: datetime) -> datetime:
    """When a file that ends now is deleted."""
    return now + timedelta(days=KEPT_DAYS)


def _require(connection: Connection, actor: Actor, export_id: UUID) -> Row[Any]:
    row = export_files.get_file(connection, actor.team_id, export_id)
    if row is None or (row.expires_at is not None and row.expires_at <= datetime.now(UTC)):
        raise NotFoundError(f"there is no export {export_id}; files are kept {KEPT_DAYS} days")
    return row


def _require_file(connection: Connection, actor: Actor, export_id: UUID) -> Row[Any]:
    row = _require(connection, actor, export_id)
    if not _is_open(row, actor):
        require_costs(actor, f"export {export_id} was made with costs: to read it")
    if row.state == "failed":
        raise ConflictError(
            f"export {export_id} has failed: {row.failure}", problem="export-failed"
        )
    if row.state != "succeeded":
        raise ConflictError(
            f"export {export_id} is {row.state}: {row.num_rows} rows are written; its file can be "
            "read when it has succeeded",
            problem="export-not-finished",
        )
    return row
