"""Batches with everything that an export may hold, and exports of them."""

from datetime import date
from typing import Any
from uuid import UUID

from service.db import export_files as rows
from service.db.engine import Database
from service.jobs import export_files, export_making, exports
from service.jobs.batch_documents import BatchOut
from service.jobs.chunks import num_chunks
from service.jobs.export_documents import ExportIn, ExportOut
from service.jobs.profile_changes import create_profile
from service.jobs.profile_documents import ProfileIn
from service.jobs.rate_documents import RateIn
from service.jobs.rates import create_rate
from service.reports.money import Money
from tests.jobs.batch_bodies import ACTOR, SEED, read, submit
from tests.jobs.chunk_steps import end, record
from tests.reports.export_readers import READERS, Row

FORMATS = list(READERS)
NORMAL = {"kind": "normal", "cv": 0.05}


def run(database: Database, *items: dict[str, Any], **changes: Any) -> BatchOut:
    """A batch that has ended, computed here: starting a compute process takes a second."""
    batch = submit(database, *items, **changes)
    for chunk in range(num_chunks(batch.points_total)):
        record(database, batch.id, chunk)
    end(database, batch.id)
    return read(database, batch.id)


def a_profile_with_a_rate(database: Database) -> None:
    with database.write() as connection:
        profile = ProfileIn(
            slug="prod", name="Production", gpu_type="H100", cost_center="research", defaults=SEED
        )
        create_profile(connection, ACTOR, profile)
        rate = RateIn(
            gpu_type="H100",
            cost_center="research",
            price_per_gpu_hour=Money(amount="1.875", currency="EUR"),
            valid_from=date(2026, 10, 1),
            valid_until=None,
            source="example",
        )
        create_rate(connection, ACTOR, rate)


def priced_batch(database: Database, **changes: Any) -> BatchOut:
    """Sizes 8 to 1024 with and without variability: 16 points, with costs, enums and nulls."""
    item = {
        "custom_id": "slow",
        "name": "one slow GPU",
        "profile": "prod",
        "axes": [
            {"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 1024}},
            {"path": "variability.transient", "values": [None, NORMAL]},
        ],
    }
    return run(database, {**item, **changes}, start_on="2026-12-01", currency="EUR")


def written(database: Database, **query: Any) -> bytes:
    """The export as it is streamed."""
    with database.read() as connection:
        question = exports.checked(ExportIn(**query))
        return b"".join(exports.extract(connection, ACTOR, question).written(question))


def read_back(database: Database, **query: Any) -> list[Row]:
    """The rows of the export, read by the format's reader."""
    return READERS[query.get("format", "csv")](written(database, **query))


def ask(database: Database, **query: Any) -> UUID:
    """Have a file made, later."""
    with database.write() as connection:
        return export_files.create(connection, ACTOR, ExportIn(**query)).id


def make(database: Database, **query: Any) -> ExportOut:
    """Have a file made, now."""
    export_id = ask(database, **query)
    export_making.run(database, export_id)
    return look_at(database, export_id)


def look_at(database: Database, export_id: UUID) -> ExportOut:
    with database.read() as connection:
        return export_files.get(connection, ACTOR, export_id)


def stored_bytes(database: Database, export_id: UUID, *span: int) -> bytes:
    """The bytes [first, stop) of the file, or all."""
    with database.read() as connection:
        file = export_files.stored_file(connection, ACTOR, export_id)
    first, stop = span or (0, file.num_bytes)
    return b"".join(export_files.content(database, file, first, stop))


def num_parts(database: Database, export_id: UUID) -> int:
    """How many parts of the file are stored."""
    found: set[int] = set()
    byte = 0
    with database.read() as connection:
        while (part := rows.read_part(connection, export_id, byte)) and part[0] not in found:
            found.add(part[0])
            byte = part[0] + len(part[1])
    return len(found)
