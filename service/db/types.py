"""Column types that mean the same on SQLite and PostgreSQL."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import DateTime, Dialect, String
from sqlalchemy.types import TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC moment; SQLite keeps naive text, so the zone is put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive moments and store UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        """Give an aware UTC moment."""
        if value is None:
            return None
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if dialect.name == "sqlite" else moment.astimezone(UTC)


class DecimalText(TypeDecorator[Decimal]):
    """A decimal kept as text, because `Numeric` becomes a float on SQLite."""

    impl = String(40)
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Store plain digits, never an exponent."""
        return None if value is None else format(value, "f")

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Decimal | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Give back the same decimal."""
        return None if value is None else Decimal(value)
