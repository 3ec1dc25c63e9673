"""The tables of what leaves the service: files made of a query, and batches copied to rows."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    true,
)

from service.db.table_parts import bulk_identity, identity, metadata
from service.db.types import UtcDateTime

# A file made of a query: its bytes lie in parts, so that any API process can send any range.
export_file = Table(
    "export_file",
    metadata,
    *identity(),
    Column("state", String(16), nullable=False),
    Column("format", String(16), nullable=False),
    Column("query", JSON, nullable=False),
    # Whether money may stand in it: then only who may see costs gets its bytes.
    Column("with_costs", Boolean, nullable=False, server_default=true()),
    Column("num_rows", BigInteger, nullable=False, default=0),
    Column("num_bytes", BigInteger, nullable=False, default=0),
    Column("sha256", String(64)),
    Column("sidecar", JSON),
    Column("failure", Text),
    Column("enqueued_version", Integer),
    Column("running_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("expires_at", UtcDateTime),
    Index("ix_export_file_state", "state"),
    Index("ix_export_file_team_id_created_at", "team_id", "created_at", "id"),
)

export_part = Table(
    "export_part",
    metadata,
    *bulk_identity(),
    Column("export_id", Uuid, ForeignKey("export_file.id", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("first_byte", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

# A batch copied to typed rows for BI tools, on request and on PostgreSQL only.
publication = Table(
    "publication",
    metadata,
    *identity(),
    Column("batch_id", Uuid, ForeignKey("scenario_batch.id", ondelete="CASCADE"), nullable=False),
    Column("state", String(16), nullable=False),
    Column("num_rows", BigInteger, nullable=False, default=0),
    Column("failure", Text),
    Column("enqueued_version", Integer),
    Column("ended_at", UtcDateTime),
    UniqueConstraint("batch_id"),
)
