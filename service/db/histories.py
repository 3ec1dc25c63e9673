"""What histories and the causes of changes read: revisions, rates, and runs of many batches."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Connection, Row, select

from service.db.tables import cluster_profile_revision, gpu_hour_rate

MOST_AT_ONCE = 5_000
"""Ids in one statement: databases limit their number."""

Item = TypeVar("Item")


def defaults_of_revisions(
    connection: Connection, revision_ids: Collection[UUID]
) -> dict[UUID, dict[str, Any]]:
    """The scenario of each revision of a profile."""
    table = cluster_profile_revision.c
    return {
        row.id: row.defaults
        for part in _parts(sorted(revision_ids))
        for row in connection.execute(select(table.id, table.defaults).where(table.id.in_(part)))
    }


def list_rates(connection: Connection, rate_ids: Collection[UUID]) -> list[Row[Any]]:
    """What each of the rates prices: id, gpu_type, cost_center."""
    table = gpu_hour_rate.c
    found: list[Row[Any]] = []
    for part in _parts(sorted(rate_ids)):
        query = select(table.id, table.gpu_type, table.cost_center).where(table.id.in_(part))
        found.extend(connection.execute(query))
    return found


def _parts(found: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(found), MOST_AT_ONCE):
        yield found[start : start + MOST_AT_ONCE]
