"""Make exported files: the bytes of one snapshot, stored in parts, once and whole.

The rows are read from one snapshot for as long as the file takes; each part is written in a short
transaction on another connection. A maker that was killed leaves parts behind: the next one takes
them away and begins again from a snapshot of its own. A maker that was only stopped and wakes up
finds that the file's version has moved on, and ends without a trace.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

from service.db import export_files
from service.db.engine import Connection, Database, Row
from service.errors import TrainardError
from service.jobs.actors import Actor
from service.jobs.export_documents import ExportIn, Sidecar
from service.jobs.export_extracts import TRAINARD_VERSION, Extract
from service.jobs.export_files import expiry, file_name
from service.jobs.exports import extract
from service.jobs.scopes import SCOPES
from service.jobs.task import Task
from service.reports.export import EXPORTERS
from service.reports.export_fields import Chunk

PART_BYTES: Final = 4 * 1024 * 1024
# As large as 8 million rows of JSON Lines, and far more than a spreadsheet or a laptop takes.
MAX_FILE_BYTES: Final = 8 * 1024**3


class FileLostError(Exception):
    """Another maker has begun, or the file was deleted."""


class FileTooLargeError(TrainardError):
    """The file would be larger than the service keeps."""


class Maker:
    """One attempt to make a file; it holds the file as long as nobody else moves its version."""

    def __init__(self, database: Database, row: Row[Any]) -> None:
        self.database = database
        self.export_id: UUID = row.id
        self.team_id: UUID = row.team_id
        self.version: int = row.version
        self.num_rows = 0
        self.num_bytes = 0
        self.num_parts = 0
        self.digest = hashlib.sha256()

    def begin(self) -> None:
        """Take the file, and take away what an earlier attempt has left."""
        with self.database.write() as connection:
            self._change(
                connection, state="running", running_at=datetime.now(UTC), num_rows=0, num_bytes=0
            )
        delete_parts(self.database, self.export_id)

    def counted(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """The chunks, their rows counted as they pass."""
        for chunk in chunks:
            self.num_rows += len(next(iter(chunk.values())))
            yield chunk

    def store(self, part: bytes) -> None:
        """Write the next part of the file; raises `FileTooLargeError` above `MAX_FILE_BYTES`."""
        if self.num_bytes + len(part) > MAX_FILE_BYTES:
            raise FileTooLargeError(
                f"the file has more than {MAX_FILE_BYTES} bytes: narrow the filters, or take "
                "parquet, which is several times smaller than text"
            )
        with self.database.write() as connection:
            self._change(connection, num_rows=self.num_rows, num_bytes=self.num_bytes + len(part))
            export_files.write_part(
                connection,
                team_id=self.team_id,
                export_id=self.export_id,
                part=self.num_parts,
                first_byte=self.num_bytes,
                data=part,
            )
        self.digest.update(part)
        self.num_bytes += len(part)
        self.num_parts += 1

    def end(self, **values: Any) -> None:
        """End the file."""
        now = datetime.now(UTC)
        with self.database.write() as connection:
            self._change(
                connection,
                num_rows=self.num_rows,
                num_bytes=self.num_bytes,
                ended_at=now,
                expires_at=expiry(now),
                **values,
            )

    def _change(self, connection: Connection, **values: Any) -> None:
        changed = export_files.change_file(
            connection,
            self.export_id,
            version=self.version,
            states=export_files.UNFINISHED,
            **values,
        )
        if not changed:
            raise FileLostError
        self.version += 1


class Question(Struct, frozen=True, kw_only=True):
    """What the file answers, and who asked when."""

    query: ExportIn
    actor: Actor
    created_at: datetime


def run(database: Database, export_id: UUID) -> None:
    """Make the file, unless it has ended; may be killed anywhere and called again."""
    with database.read() as connection:
        row = export_files.find_file(connection, export_id)
    if row is None or row.state not in export_files.UNFINISHED:
        return
    question = Question(
        query=msgspec.convert(row.query, ExportIn),
        actor=_maker(row),
        created_at=row.created_at,
    )
    maker = Maker(database, row)
    try:
        maker.begin()
        try:
            told = _make(maker, question)
        except TrainardError as error:
            # A batch was deleted since, or the like: trying again would not help.
            maker.end(state="failed", failure=error.detail)
            delete_parts(database, export_id)
        else:
            maker.end(state="succeeded", sha256=told.sha256, sidecar=msgspec.to_builtins(told))
    except FileLostError:
        return


def fail(connection: Connection, export_id: UUID, reason: str) -> None:
    """End the file with the reason; what was written of it goes when the file expires."""
    now = datetime.now(UTC)
    export_files.end_with_failure(connection, export_id, reason, now=now, expires_at=expiry(now))


def delete_parts(database: Database, export_id: UUID) -> None:
    """Take all parts away, a few in each transaction; between them others get their turn."""
    more = True
    while more:
        start = time.monotonic()
        with database.write() as connection:
            more = export_files.delete_parts(connection, export_id) > 0
        time.sleep(more * (time.monotonic() - start))


def cut(parts: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in parts of exactly `size`, but for the last; none for no bytes."""
    waiting = bytearray()
    for part in parts:
        waiting += part
        while len(waiting) >= size:
            yield bytes(waiting[:size])
            del waiting[:size]
    if waiting:
        yield bytes(waiting)


def _maker(row: Row[Any]) -> Actor:
    """Whoever asked, as far as the file goes: whether it shows money was decided when it was asked.

    What that person may do by now is asked again when the file is read.
    """
    scopes = frozenset(SCOPES) if row.with_costs else frozenset(SCOPES) - {"costs:read"}
    return Actor(
        team_id=row.team_id, name=row.created_by, principal="program:export", scopes=scopes
    )


def _make(maker: Maker, question: Question) -> Sidecar:
    with maker.database.read() as connection:
        extracted = extract(connection, question.actor, question.query)
        snapshot_at = datetime.now(UTC)
        counted = Extract(
            fields=extracted.fields,
            chunks=maker.counted(extracted.chunks),
            batches=extracted.batches,
        )
        for part in cut(counted.written(question.query), PART_BYTES):
            maker.store(part)
    return Sidecar(
        id=maker.export_id,
        format=question.query.format,
        media_type=EXPORTERS[question.query.format].media_type,
        file_name=file_name(question.query),
        rows=maker.num_rows,
        bytes=maker.num_bytes,
        sha256=maker.digest.hexdigest(),
        query=msgspec.to_builtins(question.query),
        columns=counted.columns(),
        batches=counted.batches,
        model_versions=counted.model_versions,
        trainard_version=TRAINARD_VERSION,
        snapshot_at=snapshot_at,
        created_at=question.created_at,
        created_by=question.actor.name,
    )


TASK = Task(
    name="export",
    run=run,
    fail=fail,
    unsent=export_files.list_unsent,
    mark_sent=export_files.mark_sent,
)
