"""Sealing the audit trail: within a second every event gets its place in its team's chain.

A writer only takes the next number; hashing is done here, so that no change waits for it. Any
number of processes may seal at once: each hashes what it sees, since no event changes any more that
can be seen, then locks the row of the team's chain, as writers do, and looks whether it was first.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import structlog

from service.db import audit_chains
from service.db.audit_chains import Seal
from service.db.engine import Database, OperationalError, Row
from service.db.failures import cause_of
from service.jobs.audit_hashes import event_hash, event_of

SEAL_EVERY_S: Final = 0.5
# Events a transaction: some 10 ms, in which the team's changes wait.
EVENTS_PER_STEP: Final = 200
LOG_HEAD_EVERY_S: Final = 60.0
WARN_EVERY_S: Final = 60.0

log = structlog.get_logger()


class Sealer:
    """The thread that seals, in every kind of process, and logs where the chains stand.

    The log is kept outside of the database: who rewrites a chain there would have to rewrite the
    log too.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._logged_at: dict[UUID, float] = {}
        self._warned_at = float("-inf")
        self._unlogged: dict[UUID, tuple[str, int, str]] = {}

    def start(self) -> None:
        """Seal from now on, twice a second."""
        self._thread = threading.Thread(target=self._loop, name="audit-sealer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Seal what is there, log where every chain stands, and end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._seal()
        self._log_heads(all_of_them=True)

    def _loop(self) -> None:
        while not self._stopping.wait(SEAL_EVERY_S):
            self._seal()
            self._log_heads()

    def _seal(self) -> None:
        try:
            self._unlogged |= seal(self._database)
        except OperationalError as error:
            now = time.monotonic()
            if now - self._warned_at >= WARN_EVERY_S:
                # On a full disk this would go on twice a second, into a file of the same disk.
                log.warning("audit_not_sealed", reason=cause_of(error))
                self._warned_at = now
        except Exception:
            # One fault must not end the only thread that seals.
            log.exception("audit_not_sealed")

    def _log_heads(self, *, all_of_them: bool = False) -> None:
        now = time.monotonic()
        for team_id, (team, sequence, last_hash) in list(self._unlogged.items()):
            last = self._logged_at.get(team_id)
            if all_of_them or last is None or now - last >= LOG_HEAD_EVERY_S:
                log.info("audit_head", team=team, head=f"{sequence}:{last_hash}")
                self._logged_at[team_id] = now
                del self._unlogged[team_id]


def seal(database: Database) -> dict[UUID, tuple[str, int, str]]:
    """Seal all events; slug, sequence and hash of the last one of each team that had some.

    Nothing is written, and no lock taken, when there is nothing to seal.
    """
    with database.read() as connection:
        teams = audit_chains.unsealed_teams(connection)
    heads = {team_id: _seal_team(database, team_id) for team_id in teams}
    return {team_id: head for team_id, head in heads.items() if head is not None}


def _seal_team(database: Database, team_id: UUID) -> tuple[str, int, str] | None:
    head = None
    while True:
        with database.read() as connection:
            chain = audit_chains.read_chain(connection, team_id)
            events = audit_chains.list_unsealed(connection, chain, EVENTS_PER_STEP)
        if chain.sealed_sequence >= chain.next_sequence - 1:
            return head
        seals = _seals(chain, events)
        with database.write() as connection:
            locked = audit_chains.lock_chain(connection, team_id)
            if locked.sealed_sequence != chain.sealed_sequence:
                # Another process was faster: look again.
                continue
            if not seals:
                log.error("audit_events_missing", team=chain.slug, after=chain.sealed_sequence)
                audit_chains.skip_missing(connection, chain)
                return head
            audit_chains.write_seals(connection, team_id, seals)
        head = (chain.slug, seals[-1].sequence, seals[-1].hash)


def _seals(chain: Row[Any], events: Sequence[Row[Any]]) -> list[Seal]:
    found: list[Seal] = []
    last: str = chain.sealed_hash
    for event in map(event_of, events):
        found.append(Seal(event.sequence, last, event_hash(event, last)))
        last = found[-1].hash
    return found
