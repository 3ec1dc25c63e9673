"""Databases whose disk takes nothing more, while it can be read as before."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from service.db.engine import Database

NO_LIMIT = 1_073_741_823
DISK_FULL = (
    "DO $$ BEGIN RAISE EXCEPTION 'could not extend file: no space left on device' "
    "USING ERRCODE = 'disk_full'; END $$"
)


@contextmanager
def full_disk(database: Database) -> Iterator[None]:
    """The end of each writing transaction fails with the database's own error."""

    def fill(connection: Any) -> None:
        options = connection.get_execution_options()
        if not database.is_sqlite and options.get("isolation_level") != "REPEATABLE READ":
            connection.exec_driver_sql(DISK_FULL)
        if options.get("sqlite_begin"):
            # Clamped to the pages that there are: not one more is given.
            connection.exec_driver_sql("PRAGMA max_page_count=1")
            try:
                connection.exec_driver_sql("CREATE TABLE filler AS SELECT zeroblob(1000000)")
            finally:
                connection.exec_driver_sql(f"PRAGMA max_page_count={NO_LIMIT}")

    event.listen(database.engine, "commit", fill)
    try:
        yield
    finally:
        event.remove(database.engine, "commit", fill)
