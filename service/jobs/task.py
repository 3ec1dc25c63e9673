"""A kind of durable background work on one row: the engine calls it until the row has ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from service.db.engine import Connection, Database


@dataclass(frozen=True, kw_only=True)
class Task:
    """What the engine must know of a kind of work; `jobs/tasks.py` lists the kinds.

    `run` brings the row to its final state, in transactions of its own. It may be killed at any
    point and is then called again, perhaps by another process: it looks first at what is done.
    `fail` ends the row with a reason, when `run` raised or killed its process too often; it does
    nothing to a row that has ended.
    `unsent` are unfinished rows that were not given to a workflow of `version` yet, and
    `mark_sent` notes that they were. `num_unfinished` counts the rows where `unsent` holds some
    back. What people wait for every morning `is_nightly`: it has places of its own, which nothing
    that anybody asks for beside can take.
    """

    name: str
    run: Callable[[Database, UUID], None]
    fail: Callable[[Connection, UUID, str], None]
    unsent: Callable[[Connection, int], Sequence[UUID]]
    mark_sent: Callable[[Connection, Sequence[UUID], int], None]
    num_unfinished: Callable[[Connection], int] | None = None
    is_nightly: bool = False
