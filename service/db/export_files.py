"""Files made of queries, and their bytes in parts.

Whoever makes a file holds it by its `version`: each of its writes moves the version on, and fails
when another maker, or a deletion, has moved it meanwhile.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Row, and_, delete, func, insert, or_, select, update

from service.db.tables import export_file, export_part, utc_now

UNFINISHED: Final = ("queued", "running")
ENDED: Final = ("succeeded", "failed")
DELETING: Final = "deleting"
# Parts taken away by one transaction: some 8 MB.
PARTS_PER_DELETION = 2
MAX_UNSENT = 1_000


def insert_file(connection: Connection, row: Mapping[str, Any]) -> None:
    """Write a file that is still to be made."""
    connection.execute(insert(export_file).values(**row))


def get_file(connection: Connection, team_id: UUID, export_id: UUID) -> Row[Any] | None:
    """One file of the team that is not deleted, or None."""
    c = export_file.c
    return connection.execute(
        select(export_file).where(c.id == export_id, c.team_id == team_id, c.state != DELETING)
    ).one_or_none()


def find_file(connection: Connection, export_id: UUID) -> Row[Any] | None:
    """One file of any team, whatever its state, or None."""
    return connection.execute(
        select(export_file).where(export_file.c.id == export_id)
    ).one_or_none()


def num_unfinished(connection: Connection, team_id: UUID) -> int:
    """How many files of the team still wait or are being made."""
    c = export_file.c
    return (
        connection.scalar(
            select(func.count())
            .select_from(export_file)
            .where(c.team_id == team_id, c.state.in_(UNFINISHED))
        )
        or 0
    )


def change_file(
    connection: Connection,
    export_id: UUID,
    *,
    version: int,
    states: Sequence[str],
    **values: Any,
) -> bool:
    """Change the file if it is at the version and in one of the states; whether it was."""
    c = export_file.c
    changed = connection.execute(
        update(export_file)
        .where(c.id == export_id, c.version == version, c.state.in_(states))
        .values(version=version + 1, **values)
    )
    return changed.rowcount == 1


def end_with_failure(
    connection: Connection, export_id: UUID, failure: str, *, now: datetime, expires_at: datetime
) -> None:
    """End an unfinished file, whoever makes it; nothing happens to one that has ended."""
    c = export_file.c
    connection.execute(
        update(export_file)
        .where(c.id == export_id, c.state.in_(UNFINISHED))
        .values(
            state="failed",
            failure=failure,
            ended_at=now,
            expires_at=expires_at,
            version=c.version + 1,
        )
    )


def write_part(
    connection: Connection,
    *,
    team_id: UUID,
    export_id: UUID,
    part: int,
    first_byte: int,
    data: bytes,
) -> None:
    """Write one part."""
    connection.execute(
        insert(export_part).values(
            team_id=team_id,
            created_at=utc_now(),
            export_id=export_id,
            part=part,
            first_byte=first_byte,
            data=data,
        )
    )


def read_part(connection: Connection, export_id: UUID, byte: int) -> tuple[int, bytes] | None:
    """The first byte and the data of the part that holds the byte (or is the last), or None."""
    c = export_part.c
    number = (
        select(func.max(c.part))
        .where(c.export_id == export_id, c.first_byte <= byte)
        .scalar_subquery()
    )
    row = connection.execute(
        select(c.first_byte, c.data)
        .where(c.export_id == export_id, c.part == number)
        .execution_options(binary_rows=True)
    ).one_or_none()
    return None if row is None else (row.first_byte, row.data)


def is_deleting(connection: Connection, export_id: UUID) -> bool:
    """Whether the file is hidden, and what is left of it to be taken away."""
    c = export_file.c
    query = select(c.id).where(c.id == export_id, c.state == DELETING)
    return connection.scalar(query) is not None


def mark_expired(
    connection: Connection, ids: Sequence[UUID], now: datetime
) -> list[tuple[UUID, UUID]]:
    """Hide those of the files that have expired; the teams and ids of those that were not yet."""
    c = export_file.c
    changed = connection.execute(
        update(export_file)
        .where(c.id.in_(ids), c.state.in_(ENDED), c.expires_at <= now)
        .values(state=DELETING, version=c.version + 1)
        .returning(c.team_id, c.id)
    )
    return [(row.team_id, row.id) for row in changed]


def delete_parts(connection: Connection, export_id: UUID) -> int:
    """Take some parts of the file away; how many. Call it until it is 0."""
    c = export_part.c
    numbers = list(
        connection.scalars(
            select(c.part)
            .where(c.export_id == export_id)
            .order_by(c.part)
            .limit(PARTS_PER_DELETION)
        )
    )
    connection.execute(delete(export_part).where(c.export_id == export_id, c.part.in_(numbers)))
    return len(numbers)


def delete_file(connection: Connection, export_id: UUID) -> None:
    """Take the row of a deleted file away; nothing happens to one that is not deleted."""
    c = export_file.c
    connection.execute(delete(export_file).where(c.id == export_id, c.state == DELETING))


def note_failure(connection: Connection, export_id: UUID, failure: str) -> None:
    """Keep why a deleted file could not be taken away."""
    c = export_file.c
    connection.execute(
        update(export_file).where(c.id == export_id, c.state == DELETING).values(failure=failure)
    )


def list_unsent(connection: Connection, version: int) -> list[UUID]:
    """Files to be made that no workflow of the version was given."""
    c = export_file.c
    return list(
        connection.scalars(
            select(c.id)
            .where(c.state.in_(UNFINISHED), _unsent_to(version))
            .order_by(c.created_at, c.id)
            .limit(MAX_UNSENT)
        )
    )


def list_unsent_removals(connection: Connection, version: int, now: datetime) -> list[UUID]:
    """Files that are deleted or have expired, and that no workflow of the version was given."""
    c = export_file.c
    return list(
        connection.scalars(
            select(c.id)
            .where(
                or_(
                    and_(c.state == DELETING, _unsent_to(version)),
                    and_(c.state.in_(ENDED), c.expires_at <= now),
                )
            )
            .order_by(c.created_at, c.id)
            .limit(MAX_UNSENT)
        )
    )


def mark_sent(connection: Connection, ids: Sequence[UUID], version: int) -> None:
    """Note which workflow the files to be made were given."""
    connection.execute(
        update(export_file)
        .where(export_file.c.id.in_(ids), export_file.c.state.in_(UNFINISHED))
        .values(enqueued_version=version)
    )


def mark_removals_sent(connection: Connection, ids: Sequence[UUID], version: int) -> None:
    """Note which workflow the deleted files were given."""
    connection.execute(
        update(export_file)
        .where(export_file.c.id.in_(ids), export_file.c.state == DELETING)
        .values(enqueued_version=version)
    )


def _unsent_to(version: int) -> Any:
    c = export_file.c
    return or_(c.enqueued_version.is_(None), c.enqueued_version != version)
