"""The hash of an audit event, over everything that is stored of it and the hash before."""

import hashlib
from typing import Any

import msgspec
import rfc8785

from service.db.engine import Row
from service.jobs.audit_documents import AuditEventOut


def event_of(row: Row[Any]) -> AuditEventOut:
    """The document of a stored event."""
    return AuditEventOut(**{name: getattr(row, name) for name in AuditEventOut.__struct_fields__})


def event_hash(event: AuditEventOut, previous_hash: str) -> str:
    """SHA-256 in hexadecimal digits over RFC 8785 JSON of the event, as it is exported.

    Without `hash`, with this `previous_hash`, and without the fields that are null: a column that
    a later version adds leaves old hashes as they are.
    """
    fields = {**msgspec.to_builtins(event), "previous_hash": previous_hash, "hash": None}
    given = {name: value for name, value in fields.items() if value is not None}
    return hashlib.sha256(rfc8785.dumps(given)).hexdigest()
