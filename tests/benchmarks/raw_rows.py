"""The baseline: the same columns loaded as plain rows by each driver at its best.

One typed table `point` without an index, one transaction. NaN is stored as each database has it.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import sql
from sqlalchemy import make_url

from service.db.copy_rows import HEADER, TRAILER
from tests.benchmarks.batch_tables import Table

Ask = Callable[[str], list[Any]]

SQLITE_TYPES = {"f": "REAL", "i": "INTEGER", "u": "INTEGER", "b": "INTEGER"}
BIGINT, INTEGER, SMALLINT = (">i8", "bigint"), (">i4", "integer"), (">i2", "smallint")


def load_rows(url: str, tables: Sequence[Table]) -> float:
    """Seconds to load all tables into the database, which has none called `point`."""
    if url.startswith("sqlite"):
        return _insert_into_sqlite(database_file(url), tables)
    return _copy_into_postgresql(url, tables)


@contextmanager
def opened(url: str) -> Iterator[Ask]:
    """A connection to a loaded database, as a function that answers with all rows of a query."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(database_file(url))) as connection:
            yield lambda statement: connection.execute(statement).fetchall()
        return
    with psycopg.connect(driver_address(url)) as connection:
        # As a table is that has been in use for a while.
        connection.execute("ANALYZE point")
        yield lambda statement: connection.execute(statement.encode()).fetchall()


def database_file(url: str) -> Path:
    """The file of an SQLite database."""
    return Path(make_url(url).database or "")


def driver_address(url: str) -> str:
    """The address of a PostgreSQL database as its driver takes it."""
    return url.replace("postgresql+psycopg://", "postgresql://")


def _insert_into_sqlite(file: Path, tables: Sequence[Table]) -> float:
    """WAL, one prepared statement; values as Python objects, which the driver asks for."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    columns = ", ".join(
        f'"{name}" {SQLITE_TYPES[values.dtype.kind]}' for name, values in tables[0].items()
    )
    connection.execute(f"CREATE TABLE point ({columns})")
    insert = f"INSERT INTO point VALUES ({', '.join('?' * len(tables[0]))})"
    start = time.perf_counter()
    connection.execute("BEGIN")
    for table in tables:
        connection.executemany(
            insert, zip(*(values.tolist() for values in table.values()), strict=True)
        )
    connection.execute("COMMIT")
    seconds = time.perf_counter() - start
    connection.close()
    return seconds


def _copy_into_postgresql(url: str, tables: Sequence[Table]) -> float:
    """Binary COPY from structured arrays that are laid out as the rows on the wire."""
    types = {name: _wire_type(values.dtype) for name, values in tables[0].items()}
    layout = _row_layout({name: wire for name, (wire, _) in types.items()})
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(declared))
        for name, (_, declared) in types.items()
    ]
    with psycopg.connect(driver_address(url)) as connection:
        connection.execute(sql.SQL("CREATE TABLE point ({})").format(sql.SQL(", ").join(columns)))
        connection.commit()
        start = time.perf_counter()
        statement = "COPY point FROM STDIN (FORMAT BINARY)"
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(HEADER)
            for table in tables:
                copy.write(_wire_rows(layout, table))
            copy.write(TRAILER)
        connection.commit()
        return time.perf_counter() - start


def _wire_type(stored: "np.dtype[np.generic]") -> tuple[str, str]:
    """The NumPy type on the wire, and the declared one, without a bit lost."""
    if stored.kind == "f":
        return ">f8", "double precision"
    if stored.kind == "b":
        return "?", "boolean"
    holders = {np.dtype(wire[1:]): (wire, name) for wire, name in (SMALLINT, INTEGER, BIGINT)}
    return next(found for holder, found in holders.items() if np.can_cast(stored, holder))


def _row_layout(types: dict[str, str]) -> "np.dtype[np.void]":
    """The number of fields, then each field with its length in front; no padding."""
    fields = [("fields", ">i2")]
    for name, wire in types.items():
        fields += [(f"length of {name}", ">i4"), (name, wire)]
    return np.dtype(fields)


def _wire_rows(layout: "np.dtype[np.void]", table: Table) -> bytes:
    rows = np.empty(len(table["item"]), dtype=layout)
    rows["fields"] = len(table)
    for name, values in table.items():
        rows[f"length of {name}"] = layout[name].itemsize
        rows[name] = values
    return rows.tobytes()
