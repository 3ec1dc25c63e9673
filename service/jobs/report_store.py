"""Documents of reports as they are stored: compressed JSON with all money."""

import hashlib
from typing import Final
from uuid import UUID

import msgspec
import pyarrow as pa

from service.db import reports
from service.db.engine import Connection
from service.errors import NotFoundError
from service.reports.loss_report import LossReport
from service.reports.withheld_report import without_costs

LEVEL: Final = 9
# The length of the document stands before it: the codec must be told.
_LENGTH_BYTES: Final = 8

_encoder = msgspec.json.Encoder(decimal_format="string", uuid_format="canonical")
_decoder = msgspec.json.Decoder(LossReport)


class StoredReport(msgspec.Struct, frozen=True, kw_only=True):
    """A document on its way into the database."""

    document: bytes
    sha256: str


def packed(report: LossReport) -> StoredReport:
    """The document compressed, and the SHA-256 of its JSON."""
    plain = _encoder.encode(report)
    compressed: bytes = _codec().compress(plain, asbytes=True)
    return StoredReport(
        document=len(plain).to_bytes(_LENGTH_BYTES, "big") + compressed,
        sha256=hashlib.sha256(plain).hexdigest(),
    )


def unpacked(document: bytes) -> LossReport:
    """The report that was packed."""
    size = int.from_bytes(document[:_LENGTH_BYTES], "big")
    plain = _codec().decompress(document[_LENGTH_BYTES:], decompressed_size=size, asbytes=True)
    return _decoder.decode(plain)


def read_stored(connection: Connection, report_id: UUID, *, with_costs: bool) -> LossReport:
    """The stored report, its money withheld unless `with_costs`; raises `NotFoundError`."""
    document = reports.read_document(connection, report_id)
    if document is None:
        raise NotFoundError(f"there is no report {report_id}")
    report = unpacked(document)
    return report if with_costs else without_costs(report)


def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=LEVEL)
