"""Rows of exported files: who may change them, and which part holds which byte."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import uuid_utils.compat

from service.db import export_files
from service.db.engine import Connection, Database
from service.jobs.actors import DEFAULT_TEAM_ID

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def insert(connection: Connection, state: str = "queued") -> UUID:
    export_id: UUID = uuid_utils.compat.uuid7()
    export_files.insert_file(
        connection,
        {
            "id": export_id,
            "team_id": DEFAULT_TEAM_ID,
            "created_by": "test",
            "state": state,
            "format": "csv",
            "query": {},
        },
    )
    return export_id


def write(connection: Connection, export_id: UUID, *parts: bytes) -> None:
    first = 0
    for number, data in enumerate(parts):
        export_files.write_part(
            connection,
            team_id=DEFAULT_TEAM_ID,
            export_id=export_id,
            part=number,
            first_byte=first,
            data=data,
        )
        first += len(data)


def test_a_byte_is_found_in_its_part(database: Database) -> None:
    with database.write() as connection:
        export_id, other = insert(connection), insert(connection)
        write(connection, export_id, b"abc", b"\x00\xff", b"d")
        write(connection, other, b"x")
        assert [export_files.read_part(connection, export_id, byte) for byte in range(7)] == [
            (0, b"abc"),
            (0, b"abc"),
            (0, b"abc"),
            (3, b"\x00\xff"),
            (3, b"\x00\xff"),
            (5, b"d"),
            (5, b"d"),
        ]
        assert export_files.read_part(connection, insert(connection), 0) is None


def test_one_version_is_changed_once(database: Database) -> None:
    with database.write() as connection:
        export_id = insert(connection)

        def change(version: int) -> bool:
            return export_files.change_file(
                connection, export_id, version=version, states=("queued",), num_rows=version
            )

        assert [change(1), change(1), change(2), change(4)] == [True, False, True, False]
        row = export_files.find_file(connection, export_id)
    assert row is not None
    assert (row.version, row.num_rows) == (3, 2)


def test_parts_are_taken_away_few_at_a_time(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_files, "PARTS_PER_DELETION", 2)
    with database.write() as connection:
        export_id, other = insert(connection), insert(connection)
        write(connection, export_id, *[b"a"] * 5)
        write(connection, other, b"b")
        assert [export_files.delete_parts(connection, export_id) for _ in range(4)] == [2, 2, 1, 0]
        assert export_files.read_part(connection, other, 0) == (0, b"b")


def test_only_hidden_files_are_taken_away(database: Database) -> None:
    with database.write() as connection:
        kept, hidden = insert(connection, "succeeded"), insert(connection, export_files.DELETING)
        for export_id in (kept, hidden):
            export_files.delete_file(connection, export_id)
        assert export_files.find_file(connection, kept) is not None
        assert export_files.find_file(connection, hidden) is None


def test_a_file_is_hidden_when_it_expires(database: Database) -> None:
    with database.write() as connection:
        export_id = insert(connection)
        assert export_files.num_unfinished(connection, DEFAULT_TEAM_ID) == 1
        export_files.end_with_failure(connection, export_id, "no", now=NOW, expires_at=NOW)
        assert export_files.num_unfinished(connection, DEFAULT_TEAM_ID) == 0
        before = NOW - timedelta(seconds=1)
        assert export_files.mark_expired(connection, [export_id], before) == []
        assert export_files.list_unsent_removals(connection, 1, before) == []
        assert export_files.list_unsent_removals(connection, 1, NOW) == [export_id]
        assert export_files.get_file(connection, DEFAULT_TEAM_ID, export_id) is not None
        assert not export_files.is_deleting(connection, export_id)
        hidden = [(DEFAULT_TEAM_ID, export_id)]
        assert export_files.mark_expired(connection, [export_id], NOW) == hidden
        assert export_files.is_deleting(connection, export_id)
        assert export_files.mark_expired(connection, [export_id], NOW) == []
        assert export_files.get_file(connection, DEFAULT_TEAM_ID, export_id) is None
        assert export_files.mark_expired(connection, [insert(connection)], NOW) == []


def test_a_missing_file_cannot_be_hidden(database: Database) -> None:
    with database.write() as connection:
        assert export_files.mark_expired(connection, [DEFAULT_TEAM_ID], NOW) == []
        assert not export_files.is_deleting(connection, DEFAULT_TEAM_ID)
        assert export_files.find_file(connection, DEFAULT_TEAM_ID) is None
