"""What watchers of running batches are told: the whole document, each time it has changed."""

from collections.abc import Iterator, Mapping
from uuid import UUID

import msgspec

from service.db import batches
from service.db.batch_watch import progress_of
from service.db.engine import Connection
from service.jobs.batch_documents import TERMINAL_STATES, BatchOut
from service.jobs.batch_views import shown_batches


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as it is now; `document` is None when the batch is no more."""

    batch_id: UUID
    document: BatchOut | None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen to the batch."""
        return self.document is None or self.document.state in TERMINAL_STATES


def read_changes(connection: Connection, known: Mapping[UUID, int]) -> Iterator[Change]:
    """Yield the batches whose version is not the known one (-1: not read yet).

    The watchers' right to see the batches was checked before.
    """
    found = progress_of(connection, list(known))
    for gone in known.keys() - {progress.batch_id for progress in found}:
        yield Change(batch_id=gone, document=None)
    changed = [progress for progress in found if progress.version != known[progress.batch_id]]
    for team_id in {progress.team_id for progress in changed}:
        ids = [progress.batch_id for progress in changed if progress.team_id == team_id]
        rows = batches.list_batches(connection, team_id, ids=ids, limit=len(ids))
        for document in shown_batches(connection, rows):
            yield Change(batch_id=document.id, document=document)
