"""All rows of a database in one shape, whatever version wrote it: copied, read and compared."""

from typing import Any

from sqlalchemy import String, column, inspect, select, table

from service.db.engine import Connection, Database
from service.db.tables import metadata
from service.db.types import UtcDateTime

# Columns that the second version has no more.
DROPPED = {"runner": String(100), "lease_until": UtcDateTime()}

Rows = dict[str, list[tuple[Any, ...]]]


def tables_of(connection: Connection) -> dict[str, Any]:
    """The tables as they are in this database, each column with the type that the code gives it."""
    known = {found.name: dict(found.c) for found in metadata.sorted_tables}
    shapes = {}
    for name in inspect(connection).get_table_names():
        if name in known:
            names = [part["name"] for part in inspect(connection).get_columns(name)]
            types: dict[str, Any] = {
                part: known[name][part].type if part in known[name] else DROPPED[part]
                for part in names
            }
            shapes[name] = table(name, *(column(part, kind) for part, kind in types.items()))
    return {
        found.name: shapes[found.name] for found in metadata.sorted_tables if found.name in shapes
    }


def copy_rows(source_url: str, target_url: str) -> None:
    source, target = Database(source_url), Database(target_url)
    with source.read() as reading, target.write() as writing:
        for name, shape in tables_of(reading).items():
            rows = [dict(row._mapping) for row in reading.execute(select(shape))]
            # A corrected rate names the one that replaced it, which must be there first.
            rows.sort(key=lambda row: row.get("superseded_by") is not None)
            if rows and name != "team":
                writing.execute(shape.insert(), rows)
    source.close()
    target.close()


def read_rows(
    url: str, names: dict[str, list[str]] | None = None
) -> tuple[Rows, dict[str, list[str]]]:
    """All rows as sorted text, of the columns given or of all, and the columns by table."""
    database = Database(url)
    rows: Rows = {}
    columns: dict[str, list[str]] = {}
    with database.read() as connection:
        for name, shape in tables_of(connection).items():
            wanted = [part.name for part in shape.c] if names is None else names.get(name, [])
            if wanted:
                found = connection.execute(select(*(shape.c[part] for part in wanted)))
                rows[name] = sorted(tuple(map(repr, row)) for row in found)
                columns[name] = wanted
    database.close()
    return rows, columns


def without_dropped(rows: Rows, columns: dict[str, list[str]]) -> Rows:
    """The rows without the columns that the second version has no more."""
    return {
        name: sorted(
            tuple(
                value for part, value in zip(columns[name], row, strict=True) if part not in DROPPED
            )
            for row in found
        )
        for name, found in rows.items()
    }


def kept_columns(columns: dict[str, list[str]]) -> dict[str, list[str]]:
    return {
        name: [part for part in parts if part not in DROPPED] for name, parts in columns.items()
    }
