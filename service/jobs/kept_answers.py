"""How long the answers to Idempotency-Keys are kept."""

from datetime import UTC, datetime, timedelta
from typing import Final

from service.db import idempotency
from service.db.engine import Database

# Said in the description of the header (api/contract.py)
KEPT_DAYS: Final = 7


def forget_old(database: Database) -> int:
    """Forget the answers that are older; returns how many. It writes only when there are some."""
    return idempotency.forget_answers(database, datetime.now(UTC) - timedelta(days=KEPT_DAYS))
