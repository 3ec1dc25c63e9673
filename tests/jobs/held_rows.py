"""What a database file holds, for tests of copies."""

from pathlib import Path

from sqlalchemy import func, select

from service.db.engine import Database
from service.db.tables import audit_event, scenario_batch


def held(file: Path) -> tuple[int, int, list[str]]:
    """Batches, their points, and the audited commands."""
    database = Database(f"sqlite:///{file}")
    try:
        with database.read() as connection:
            batches, points = connection.execute(
                select(func.count(), func.sum(scenario_batch.c.points_done))
            ).one()
            actions = connection.scalars(
                select(audit_event.c.action)
                .where(audit_event.c.principal.startswith("program:"))
                .order_by(audit_event.c.sequence)
            )
            return batches, points, list(actions)
    finally:
        database.close()
