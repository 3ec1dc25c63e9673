"""What all tables share: their metadata, and the columns of identity."""

from datetime import UTC, datetime

import uuid_utils.compat
from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Uuid

from service.db.types import UtcDateTime

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def utc_now() -> datetime:
    """The current moment, aware."""
    return datetime.now(UTC)


def identity() -> list[Column[object]]:
    """The columns of every noun: id, team, who and when, and the optimistic lock."""
    return [
        Column("id", Uuid, primary_key=True, default=uuid_utils.compat.uuid7),
        Column("team_id", Uuid, ForeignKey("team.id"), nullable=False),
        Column("created_at", UtcDateTime, nullable=False, default=utc_now),
        Column("created_by", String(200), nullable=False),
        Column("updated_at", UtcDateTime, nullable=False, default=utc_now, onupdate=utc_now),
        Column("version", Integer, nullable=False, default=1),
    ]


def bulk_identity() -> list[Column[object]]:
    """Block, ledger and idempotency rows carry the team and the moment only (decisions 13)."""
    return [
        Column("team_id", Uuid, ForeignKey("team.id"), nullable=False),
        Column("created_at", UtcDateTime, nullable=False, default=utc_now),
    ]
