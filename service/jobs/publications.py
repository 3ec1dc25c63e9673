"""Publish a batch for BI tools: its points as typed rows of a table, on PostgreSQL only.

The engine runs a task once for an id, so each request gives the row a new one: what the former id
was asked for is then wanted no more.
"""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Literal, cast
from uuid import UUID

import uuid_utils.compat
from msgspec import Meta, Struct

from service.db import batches, publications
from service.db.engine import Connection, Database
from service.db.publications import PARENT, SCHEMA, list_unsent, mark_sent
from service.db.results import BatchRef, iterate_columns
from service.errors import ConflictError, NotFoundError, PreconditionFailedError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.batches import no_batch, require_batch, require_finished
from service.jobs.published_rows import FIXED_COLUMNS, published_columns, row_fields
from service.jobs.stored_inputs import defaults_beside
from service.jobs.task import Task

PublicationState = Literal["queued", "running", "succeeded", "failed"]
PENDING = ("queued", "running")
# Not shown: the rows are about to be dropped.
REMOVING = "removing"
SHOWN = (*PENDING, "succeeded", "failed")


class PublicationOut(Struct, frozen=True, kw_only=True):
    """Where the points of a batch can be read by SQL, and how far that is."""

    batch_id: UUID
    state: PublicationState
    table: Annotated[str, Meta(description="Its rows of this `batch_id` are the batch.")]
    rows: Annotated[int, Meta(description="Computed points; 0 until it has succeeded.")]
    failure: str | None
    created_at: datetime
    created_by: str
    ended_at: datetime | None
    version: int


def publish(connection: Connection, actor: Actor, batch_id: UUID) -> PublicationOut:
    """Have an ended batch published; one that is published or waits for it stays as it is.

    Raises `NotFoundError`, and `ConflictError` for a batch that has not ended and on SQLite.
    """
    batch = require_finished(connection, actor, batch_id)
    if not publications.is_supported(connection):
        raise ConflictError(
            "batches are published as rows of a PostgreSQL table, but this service runs on "
            "SQLite: use an export instead, or TRAINARD_DATABASE_URL=postgresql://…",
            problem="needs-postgresql",
        )
    # Its row stays until the publication's, which refers to it, is written.
    held = batches.lock_batch(connection, batch_id)
    if held is None or held.deleted_at is not None:
        raise no_batch(batch_id)
    is_asked_for = publications.insert_once(
        connection,
        {
            "id": uuid_utils.compat.uuid7(),
            "team_id": batch.team_id,
            "created_by": actor.name,
            "batch_id": batch_id,
            "state": "queued",
        },
    )
    row = publications.get_publication(connection, batch_id)
    if row is not None and row.state in {"failed", REMOVING}:
        is_asked_for = publications.set_state(
            connection,
            row.id,
            "queued",
            expected=("failed", REMOVING),
            id=uuid_utils.compat.uuid7(),
            failure=None,
            ended_at=None,
            num_rows=0,
            enqueued_version=None,
        )
    published = _out(connection, batch_id)
    if is_asked_for:
        audit.record(
            connection, actor, action="publish_batch", subject=_subject(batch_id), after=published
        )
    return published


def get(connection: Connection, actor: Actor, batch_id: UUID) -> PublicationOut:
    """The publication of the batch; raises `NotFoundError`."""
    require_batch(connection, actor, batch_id)
    return _out(connection, batch_id)


def unpublish(
    connection: Connection, actor: Actor, batch_id: UUID, *, expected_version: int
) -> None:
    """Have the published rows dropped; the batch stays.

    Raises `NotFoundError`, and `PreconditionFailedError` when it has changed since it was read.
    """
    current = get(connection, actor, batch_id)
    row = publications.get_publication(connection, batch_id)
    if row is None or not publications.set_state(
        connection,
        row.id,
        REMOVING,
        expected=SHOWN,
        version=expected_version,
        id=uuid_utils.compat.uuid7(),
        enqueued_version=None,
    ):
        # It may have been changed or withdrawn since it was read above.
        now = get(connection, actor, batch_id)
        raise PreconditionFailedError(
            f"the publication of batch {batch_id} is at version {now.version}, "
            f"not {expected_version}"
        )
    audit.record(
        connection, actor, action="unpublish_batch", subject=_subject(batch_id), before=current
    )


def withdraw(database: Database, batch_id: UUID) -> None:
    """Drop the published rows of a batch, if there are any."""
    if not database.is_sqlite:
        publications.drop_partition(database, batch_id)


def run(database: Database, publication_id: UUID) -> None:
    """Publish or drop what the row asks for; may be killed anywhere and called again."""
    with database.read() as connection:
        task = publications.get_task(connection, publication_id)
    if task is None:
        return
    if task.deleted_at is None and task.state in PENDING:
        _publish(database, publication_id, task.batch_id, task.team_id)
    with database.read() as connection:
        task = publications.get_task(connection, publication_id)
    # It may also have been taken back while it was filled.
    if task is not None and task.deleted_at is None and task.state == REMOVING:
        withdraw(database, task.batch_id)
        with database.write() as connection:
            publications.delete_publication(connection, publication_id, expected=(REMOVING,))


def fail(connection: Connection, publication_id: UUID, reason: str) -> None:
    """End the publication with a reason."""
    publications.set_state(
        connection,
        publication_id,
        "failed",
        expected=(*PENDING, REMOVING),
        failure=reason,
        ended_at=datetime.now(UTC),
    )


class _TakenBackError(Exception):
    """The publication was withdrawn, or its batch deleted, while its rows were copied."""


def _publish(database: Database, publication_id: UUID, batch_id: UUID, team_id: UUID) -> None:
    with database.write() as connection:
        publications.set_state(connection, publication_id, "running", expected=PENDING)
        batch = batches.get_batch(connection, team_id, batch_id)
    if batch is None:
        return
    constants = defaults_beside(batch.columns)
    columns = published_columns([*batch.columns, *constants])
    publications.make_columns(database, columns)
    # What an earlier publication left, when this one was asked for before it was gone.
    withdraw(database, batch_id)
    with suppress(_TakenBackError), database.read() as reading, database.write() as connection:
        publications.hold_batch(connection, batch_id)
        _require_wanted(connection, publication_id)
        items = batches.list_items(reading, [batch_id])
        names = ("point", "item", *(part.name for part in columns[len(FIXED_COLUMNS) :]))
        ref = BatchRef(batch_id=batch_id, constants=constants)
        tables = iterate_columns(reading, ref, names, chunk_blocks=1)
        num_rows = publications.fill(
            connection,
            batch_id,
            columns,
            (row_fields(batch, items, columns, table) for table in tables),
        )
        _end(connection, publication_id, num_rows)


def _require_wanted(connection: Connection, publication_id: UUID) -> None:
    task = publications.get_task(connection, publication_id)
    if task is None or task.deleted_at is not None or task.state not in PENDING:
        raise _TakenBackError


def _end(connection: Connection, publication_id: UUID, num_rows: int) -> None:
    """Last act of the transaction that filled the partition; undoes it if nobody wants it now.

    A batch deleted after this look is no fault: its deletion drops the partition.
    """
    _require_wanted(connection, publication_id)
    ended = publications.set_state(
        connection,
        publication_id,
        "succeeded",
        expected=PENDING,
        num_rows=num_rows,
        ended_at=datetime.now(UTC),
    )
    if not ended:
        raise _TakenBackError


def _subject(batch_id: UUID) -> str:
    return f"scenario-batch/{batch_id}/publication"


def _out(connection: Connection, batch_id: UUID) -> PublicationOut:
    row = publications.get_publication(connection, batch_id)
    if row is None or row.state == REMOVING:
        raise NotFoundError(f"batch {batch_id} is not published")
    return PublicationOut(
        batch_id=batch_id,
        state=cast("PublicationState", row.state),
        table=f"{SCHEMA}.{PARENT}",
        rows=row.num_rows,
        failure=row.failure,
        created_at=row.created_at,
        created_by=row.created_by,
        ended_at=row.ended_at,
        version=row.version,
    )


TASK = Task(
    name="publication",
    run=run,
    fail=fail,
    unsent=lambda connection, version: list_unsent(connection, (*PENDING, REMOVING), version),
    mark_sent=mark_sent,
)
