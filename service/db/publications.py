"""Publications: batches as typed rows of `bi.result_point`, for BI tools, on PostgreSQL only.

The schema `bi` is no part of the migrations: it is made, and gets new columns, when a batch is
published. One partition holds one batch. It is filled as a table of its own and attached in the
same transaction, so readers see all of a batch or nothing, and neither filling nor attaching
blocks them. Only dropping a partition, and a new column, need the parent to themselves for a
moment: they wait for it at most `LOCK_TIMEOUT_MS`, then let the readers through and try again.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg.errors
from msgspec import Struct
from psycopg import sql
from sqlalchemy import Connection, Row, delete, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import OperationalError

from service.db.copy_rows import HEADER, TRAILER, CopyField, encode_rows
from service.db.engine import Database
from service.db.tables import publication, scenario_batch

SCHEMA = "bi"
PARENT = "result_point"
LOCK_TIMEOUT_MS = 50
# Readers that hold the table without a gap for so long make the task fail.
MAX_WAIT_S = 300.0
MIN_PAUSE_S, MAX_PAUSE_S = 0.05, 2.0
# PostgreSQL cuts longer names off without an error.
MAX_NAME_BYTES = 63
# Two processes must ask for the same lock when they make the schema and its columns.
SCHEMA_LOCK_KEY = 7_205_759_403_792_794

BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
SQL_TYPES = {
    "text": "text",
    "enum": "text",
    "uuid": "uuid",
    "float64": "double precision",
    "int64": "bigint",
    "bool": "boolean",
}


class PublishedColumn(Struct, frozen=True, kw_only=True):
    """A column of the published rows; `kind` is a key of `SQL_TYPES`."""

    name: str
    kind: str
    comment: str


def is_supported(connection: Connection) -> bool:
    """Whether the database can hold published rows."""
    return connection.dialect.name == "postgresql"


def insert_once(connection: Connection, row: Mapping[str, Any]) -> bool:
    """Write a publication unless the batch has one; whether it was written."""
    written = insert(publication).values(**row).on_conflict_do_nothing()
    return connection.scalar(written.returning(publication.c.id)) is not None


def get_publication(connection: Connection, batch_id: UUID) -> Row[Any] | None:
    """The publication of the batch, or None."""
    query = select(publication).where(publication.c.batch_id == batch_id)
    return connection.execute(query).one_or_none()


def get_task(connection: Connection, publication_id: UUID) -> Row[Any] | None:
    """A publication with `deleted_at` of its batch, or None."""
    query = select(publication, scenario_batch.c.deleted_at).join(
        scenario_batch, scenario_batch.c.id == publication.c.batch_id
    )
    return connection.execute(query.where(publication.c.id == publication_id)).one_or_none()


def set_state(
    connection: Connection,
    publication_id: UUID,
    state: str,
    *,
    expected: Sequence[str],
    version: int | None = None,
    **values: Any,
) -> bool:
    """Move it to `state` from one of the expected ones (and `version`); whether it was there."""
    c = publication.c
    query = update(publication).where(c.id == publication_id, c.state.in_(expected))
    if version is not None:
        query = query.where(c.version == version)
    changed = connection.execute(query.values(state=state, version=c.version + 1, **values))
    return changed.rowcount == 1


def delete_publication(
    connection: Connection, publication_id: UUID, *, expected: Sequence[str]
) -> None:
    """Delete the row if it is in one of the expected states."""
    c = publication.c
    connection.execute(delete(publication).where(c.id == publication_id, c.state.in_(expected)))


def list_unsent(connection: Connection, states: Sequence[str], version: int) -> list[UUID]:
    """Publications in the states that were not given to `version` yet, oldest first."""
    c = publication.c
    unsent = or_(c.enqueued_version.is_(None), c.enqueued_version != version)
    query = select(c.id).where(c.state.in_(states), unsent).order_by(c.updated_at, c.id)
    return list(connection.scalars(query))


def mark_sent(connection: Connection, publication_ids: Sequence[UUID], version: int) -> None:
    """Note the version that the publications were given to."""
    connection.execute(
        update(publication)
        .where(publication.c.id.in_(publication_ids))
        .values(enqueued_version=version)
    )


def make_columns(database: Database, columns: Sequence[PublishedColumn]) -> None:
    """Make the schema, the parent table and the columns it lacks; comment each column.

    Raises `ValueError` for a name that PostgreSQL would cut off.
    """
    for column in columns:
        if len(column.name.encode()) > MAX_NAME_BYTES:
            raise ValueError(
                f"column {column.name!r} cannot be published: PostgreSQL's names have at most "
                f"{MAX_NAME_BYTES} bytes"
            )

    def make(connection: Connection) -> None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": SCHEMA_LOCK_KEY})
        known = _comments(connection, PARENT)
        if not known:
            _run(connection, "CREATE SCHEMA IF NOT EXISTS {}", sql.Identifier(SCHEMA))
            _run(
                connection,
                "CREATE TABLE {} (batch_id uuid NOT NULL) PARTITION BY LIST (batch_id)",
                _table(PARENT),
            )
            known = {"batch_id": None}
        _add_columns(connection, PARENT, [part for part in columns if part.name not in known])
        for column in columns:
            if known.get(column.name) != column.comment:
                name = sql.Identifier(SCHEMA, PARENT, column.name)
                _run(connection, "COMMENT ON COLUMN {} IS {}", name, sql.Literal(column.comment))

    _with_short_locks(database, make)


def fill(
    connection: Connection,
    batch_id: UUID,
    columns: Sequence[PublishedColumn],
    chunks: Iterable[Sequence[CopyField]],
) -> int:
    """Make, fill and attach the partition of the batch; returns its rows.

    `chunks` have one field a column. Does nothing to what another transaction may see before it
    is committed; call `hold_batch` first, and commit at once after it.
    """
    name = partition_name(batch_id)
    _run(
        connection,
        "CREATE TABLE {} ({}, CHECK (batch_id = {}))",
        _table(name),
        sql.SQL(", ").join(_declared(column) for column in columns),
        sql.Literal(batch_id),
    )
    num_rows = _copy(connection, name, columns, chunks)
    # Attaching waits only for others that attach or alter, never for readers, nor they for it.
    _run(connection, "LOCK TABLE {} IN SHARE UPDATE EXCLUSIVE MODE", _table(PARENT))
    missing = _types(connection, PARENT).items() - _types(connection, name).items()
    for column, kind in sorted(missing):
        added = sql.Identifier(column), sql.SQL(kind)
        _run(connection, "ALTER TABLE {} ADD COLUMN {} {}", _table(name), *added)
    _run(
        connection,
        "ALTER TABLE {} ATTACH PARTITION {} FOR VALUES IN ({})",
        _table(PARENT),
        _table(name),
        sql.Literal(batch_id),
    )
    return num_rows


def hold_batch(connection: Connection, batch_id: UUID) -> None:
    """Until the transaction ends, nobody else fills or drops the partition of the batch."""
    connection.execute(
        text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))"),
        {"key": f"{SCHEMA}/{batch_id}"},
    )


def drop_partition(database: Database, batch_id: UUID) -> None:
    """Drop the published rows of the batch; harmless when there are none."""

    def drop(connection: Connection) -> None:
        hold_batch(connection, batch_id)
        if _types(connection, partition_name(batch_id)):
            _run(connection, "DROP TABLE {}", _table(partition_name(batch_id)))

    _with_short_locks(database, drop)


def partition_name(batch_id: UUID) -> str:
    """Name of the batch's partition in the schema."""
    return f"{PARENT}_{batch_id.hex}"


def _with_short_locks(database: Database, work: Callable[[Connection], None]) -> None:
    """Run the work in one transaction; where a lock is not free at once, later again.

    Whoever waits for a table to itself makes all later readers wait too.
    """
    start, pause_s = time.monotonic(), MIN_PAUSE_S
    while True:
        try:
            with database.write() as connection:
                connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"))
                work(connection)
                return
        except OperationalError as error:
            if not isinstance(error.orig, BUSY) or time.monotonic() - start > MAX_WAIT_S:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_PAUSE_S)


def _copy(
    connection: Connection,
    name: str,
    columns: Sequence[PublishedColumn],
    chunks: Iterable[Sequence[CopyField]],
) -> int:
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(_table(name), names)
    num_rows = 0
    with _cursor(connection) as cursor, cursor.copy(statement) as copy:
        copy.write(HEADER)
        for fields in chunks:
            num_rows += len(fields[0].lengths)
            copy.write(encode_rows(fields))
        copy.write(TRAILER)
    return num_rows


def _comments(connection: Connection, table: str) -> dict[str, str | None]:
    """Comments by the names of the columns; empty when there is no such table."""
    rows = connection.execute(_COLUMNS, {"schema": SCHEMA, "table": table})
    return {row.name: row.comment for row in rows}


def _types(connection: Connection, table: str) -> dict[str, str]:
    """Types by the names of the columns; empty when there is no such table."""
    rows = connection.execute(_COLUMNS, {"schema": SCHEMA, "table": table})
    return {row.name: row.kind for row in rows}


_COLUMNS = text(
    "SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS kind,"
    " col_description(c.oid, a.attnum) AS comment"
    " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = :schema AND c.relname = :table AND a.attnum > 0 AND NOT a.attisdropped"
)


def _add_columns(connection: Connection, table: str, columns: Sequence[PublishedColumn]) -> None:
    if columns:
        added = sql.SQL(", ").join(
            sql.SQL("ADD COLUMN IF NOT EXISTS {}").format(_declared(column)) for column in columns
        )
        _run(connection, "ALTER TABLE {} {}", _table(table), added)


def _declared(column: PublishedColumn) -> sql.Composed:
    kind = SQL_TYPES[column.kind] + (" NOT NULL" if column.name == "batch_id" else "")
    return sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(kind))


def _table(name: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, name)


def _run(connection: Connection, statement: str, *parts: sql.Composable) -> None:
    with _cursor(connection) as cursor:
        cursor.execute(sql.SQL(statement).format(*parts))


@contextmanager
def _cursor(connection: Connection) -> Iterator[psycopg.Cursor[Any]]:
    """The driver's cursor inside the open transaction: SQLAlchemy has no COPY.

    A lost connection and a lock that is not free are raised as SQLAlchemy raises them.
    """
    driver = connection.connection.driver_connection
    if not isinstance(driver, psycopg.Connection):
        raise TypeError(f"{type(driver).__name__} is no PostgreSQL connection")
    try:
        with driver.cursor() as cursor:
            yield cursor
    except psycopg.OperationalError as error:
        raise OperationalError("publishing a batch", None, error) from error
