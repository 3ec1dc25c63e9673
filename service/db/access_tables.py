"""The tables of who may do what: keys, the audit trail and what was used of the limits."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    UniqueConstraint,
    Uuid,
)

from service.db.table_parts import bulk_identity, identity, metadata
from service.db.types import UtcDateTime

# Rows are never deleted: a key that existed keeps the service closed to those without one.
api_key = Table(
    "api_key",
    metadata,
    *identity(),
    # The middle part of trn_<id>_<secret>
    Column("public_id", String(32), nullable=False, unique=True),
    # SHA-256 in hexadecimal digits; 256 random bits need no slow hash
    Column("secret_digest", String(64), nullable=False),
    Column("name", String(100), nullable=False),
    Column("role", String(16), nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("revoked_by", String(200)),
    Index("ix_api_key_team_id_created_at", "team_id", "created_at", "id"),
)

# Who has signed in on the pages with a key. The cookie holds a token of 256 random bits, this its
# SHA-256; a row is deleted when its time has come, ended or not.
web_session = Table(
    "web_session",
    metadata,
    *identity(),
    Column("api_key_id", Uuid, ForeignKey("api_key.id"), nullable=False),
    Column("token_digest", String(64), nullable=False, unique=True),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Index("ix_web_session_api_key_id", "api_key_id", "id"),
    Index("ix_web_session_expires_at", "expires_at"),
)

# One row per change, refused access or reading of money. The sequence has no gap within a team;
# the sealer fills in the hashes.
audit_event = Table(
    "audit_event",
    metadata,
    Column("team_id", Uuid, ForeignKey("team.id"), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("principal", String(200), nullable=False),
    Column("role", String(16), nullable=False),
    Column("action", String(64), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("subject", String(300), nullable=False),
    Column("changed", JSON, nullable=False),
    Column("before_digest", String(80)),
    Column("after_digest", String(80)),
    Column("request", String(500)),
    Column("trace_id", String(128)),
    Column("address", String(64)),
    Column("detail", String(500)),
    Column("previous_hash", String(64)),
    Column("hash", String(64)),
    Index("ix_audit_event_team_id_created_at", "team_id", "created_at"),
)

# Where the chain of a team begins, is sealed up to, and goes on.
audit_chain = Table(
    "audit_chain",
    metadata,
    Column("team_id", Uuid, ForeignKey("team.id"), primary_key=True),
    Column("next_sequence", BigInteger, nullable=False),
    Column("sealed_sequence", BigInteger, nullable=False),
    Column("sealed_hash", String(64), nullable=False),
    # Of the last event that retention has removed
    Column("pruned_sequence", BigInteger, nullable=False),
    Column("pruned_hash", String(64), nullable=False),
)

# What was used of a limit in one window of time, by all processes together.
usage_window = Table(
    "usage_window",
    metadata,
    *bulk_identity(),
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("principal", String(200), nullable=False),
    Column("policy", String(16), nullable=False),
    Column("window_start", UtcDateTime, nullable=False),
    Column("used", BigInteger, nullable=False),
    UniqueConstraint("team_id", "principal", "policy", "window_start"),
    Index("ix_usage_window_window_start", "window_start"),
)
