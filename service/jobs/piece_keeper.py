"""Keeps the pieces of the chunk that is being computed; a kill loses a few seconds, not minutes."""

from collections.abc import Sequence
from datetime import UTC, datetime

import structlog

from service.db.engine import Database, OperationalError
from service.db.failures import NotStoredError, cause_of, refusals_named
from service.jobs.batch_runs import ChunkWork
from service.jobs.chunks import Piece, one_piece
from service.jobs.kept_pieces import drop_pieces, keep_piece, load_pieces

# The first pieces are small, and cheap ones need not be kept: the next is added before it is.
KEEP_S = 1.0

log = structlog.get_logger()


class PieceKeeper:
    """Of one chunk. What cannot be kept is no fault: it is computed again if it must be."""

    def __init__(self, work: ChunkWork, database: Database) -> None:
        self._work = work
        self._database = database
        self._next_point = work.first_point
        self._waiting: list[Piece] = []
        self._waiting_s = 0.0

    def load(self) -> Sequence[Piece]:
        """The kept pieces from the chunk's first point on; those that do not fit are deleted."""
        try:
            with self._database.read() as connection:
                kept = load_pieces(connection, self._work)
            if kept.unfit:
                log.warning("pieces_do_not_fit", **self._named, number=len(kept.unfit))
                with self._database.write() as connection:
                    drop_pieces(connection, self._work, kept.unfit)
        except OperationalError as error:
            log.warning("pieces_not_loaded", **self._named, reason=cause_of(error))
            return []
        self._next_point += sum(piece.num_points for piece in kept.pieces)
        if kept.pieces:
            log.info("pieces_taken_up", **self._named, next_point=self._next_point)
        return kept.pieces

    def add(self, piece: Piece, took_s: float) -> None:
        """Take the next piece, and keep what waits when it took a while to compute."""
        self._waiting.append(piece)
        self._waiting_s += took_s
        if self._waiting_s >= KEEP_S:
            self._keep()

    def _keep(self) -> None:
        piece = one_piece(self._waiting)
        try:
            with self._database.write() as connection, refusals_named():
                keep_piece(connection, self._work, self._next_point, piece, datetime.now(UTC))
        except (OperationalError, NotStoredError) as error:
            # It waits for the next one.
            log.warning("piece_not_kept", **self._named, reason=cause_of(error))
            return
        self._next_point += piece.num_points
        self._waiting, self._waiting_s = [], 0.0

    @property
    def _named(self) -> dict[str, object]:
        return {"batch": str(self._work.batch_id), "chunk": self._work.chunk}
