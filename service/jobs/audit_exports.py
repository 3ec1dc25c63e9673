"""The audit trail as a file: JSON Lines with all that is stored, or CSV for a spreadsheet."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from service.jobs.audit_documents import AuditEventOut
from service.reports.export_fields import Chunk, Field
from service.reports.export_text import write_csv

NAMES: Final = AuditEventOut.__struct_fields__
_FIELDS: Final = tuple(
    Field(name=name, kind="int64" if name == "sequence" else "text") for name in NAMES
)

_encoder = msgspec.json.Encoder()


def write_events_jsonl(pages: Iterable[list[AuditEventOut]]) -> Iterator[bytes]:
    """One event a line: without `hash` and what is null, it is what was hashed (RFC 8785)."""
    for page in pages:
        yield _encoder.encode_lines(page)


def write_events_csv(pages: Iterable[list[AuditEventOut]]) -> Iterator[bytes]:
    """RFC 4180; texts that a spreadsheet would run as a formula begin with an apostrophe."""
    return write_csv(_FIELDS, map(_columns, pages))


FORMATS: Final[dict[str, Callable[[Iterable[list[AuditEventOut]]], Iterator[bytes]]]] = {
    "jsonl": write_events_jsonl,
    "csv": write_events_csv,
}


def _columns(page: list[AuditEventOut]) -> Chunk:
    rows: list[dict[str, Any]] = [msgspec.to_builtins(event) for event in page]
    for row in rows:
        row["changed"] = " ".join(row["changed"])
    return {name: [row[name] for row in rows] for name in NAMES}
