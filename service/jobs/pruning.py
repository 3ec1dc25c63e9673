"""Delete what is past its time, a few rows a transaction, with an event for each team in it."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct

from service.db.engine import Connection, Database
from service.jobs import audit
from service.jobs.actors import program


class Pruning(Struct, frozen=True, kw_only=True):
    """What is deleted, and how the audit trail tells it: `told` follows the number of rows.

    `delete` removes up to `per_step` rows and gives (team, id) of each.
    """

    delete: Callable[[Connection], Sequence[tuple[UUID, Any]]]
    per_step: int
    command: str
    action: str
    subject: str
    told: str


def prune(database: Database, pruning: Pruning) -> int:
    """Delete until less than a step is left; how many rows."""
    total = 0
    while True:
        with database.write() as connection:
            gone = pruning.delete(connection)
            for team_id, count in sorted(Counter(team for team, _ in gone).items()):
                audit.record(
                    connection,
                    program(pruning.command, team_id),
                    action=pruning.action,
                    subject=pruning.subject,
                    detail=f"{count} {pruning.told}",
                )
        total += len(gone)
        if len(gone) < pruning.per_step:
            return total
