"""The courier: the duty of every process that sends what is due, a few deliveries at a time."""

import os
import random
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

import structlog
from msgspec import Struct

from service.db import deliveries as rows
from service.db import webhook_endpoints
from service.db.engine import Connection, Database, OperationalError
from service.db.failures import cause_of
from service.jobs import webhook_encryption
from service.jobs.delivery_attempts import LEASE_S, Claim, Sent, claim_due, record
from service.jobs.delivery_places import Turns
from service.jobs.delivery_sending import send
from service.jobs.duties import Duty
from service.settings import Deliveries

LOOK_EVERY_S: Final = 1.0
# While something is sent: how often it is looked for more.
LOOK_AGAIN_S: Final = 0.25
# A third of a lease, so that one failed renewal costs nothing.
RENEW_EVERY_S: Final = LEASE_S / 3
# At the end of the process: what is not sent by then is sent again by another one.
GRACE_S: Final = 3.0
RECORD_TRIES: Final = 5

log = structlog.get_logger()

Sender = Callable[[Claim, datetime], Sent]


class _InHand(Struct):
    """What is sent at the moment."""

    claim: Claim
    thread: threading.Thread


class Courier:
    """Sends deliveries of all teams; any number of processes may do so at once."""

    def __init__(
        self,
        database: Database,
        settings: Deliveries,
        *,
        sender: Sender | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"{socket.gethostname()[:60]}-{os.getpid()}-{uuid4().hex[:8]}"
        self._database = database
        self._settings = settings
        self._sender = sender or (lambda claim, now: send(claim, database, settings, now=now))
        self._clock = clock
        self._jitter = jitter
        self._in_hand: dict[UUID, _InHand] = {}
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._renewed_at = time.monotonic()
        self._has_seen_to_secrets = False

    def duty(self) -> Duty:
        """The thread that does it."""
        return Duty("courier", self.act, every_s=LOOK_EVERY_S)

    def act(self, duty: Duty) -> bool:
        """Send what is due until nothing is and nothing is in hand."""
        self._see_to_secrets()
        while not duty.is_stopping:
            self._done.clear()
            started = self.start_due()
            if not started and not self._busy():
                return False
            self._done.wait(LOOK_AGAIN_S)
            self._renew()
        self.wait(GRACE_S)
        return False

    def start_due(self) -> int:
        """Begin to send what is due and has a place; how many.

        What is in hand is not begun beside itself, though its lease may have run out, or somebody
        have called it off and asked for it again.
        """
        now = self._clock()
        with self._lock:
            busy = {*self._in_hand}
            lanes = [one.claim.lane for one in self._in_hand.values()]
        with self._database.read() as connection:
            # Looking costs SQLite no lock.
            if not rows.any_due(connection, now):
                return 0
            turns = Turns(lanes)
            waiting = rows.list_due(
                connection,
                now,
                kinds=turns.open_kinds,
                full_endpoints=turns.full_endpoints,
                busy=busy,
            )
        if turns.next_of(waiting) is None:
            return 0
        with self._database.write() as connection:
            claims = claim_due(
                connection,
                now,
                claimed_by=self.name,
                in_hand=lanes,
                busy=busy,
                waiting=waiting,
                public_url=self._settings.public_url,
            )
        for claim in claims:
            thread = threading.Thread(
                target=self._send, args=(claim,), name="delivery", daemon=True
            )
            with self._lock:
                self._in_hand[claim.delivery.id] = _InHand(claim=claim, thread=thread)
            thread.start()
        return len(claims)

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is in hand; False when the time was over before."""
        end = time.monotonic() + seconds
        for one in self._busy():
            one.thread.join(max(0.0, end - time.monotonic()))
        return not self._busy()

    def _busy(self) -> list[_InHand]:
        with self._lock:
            return list(self._in_hand.values())

    def _send(self, claim: Claim) -> None:
        try:
            started_at = self._clock()
            sent = self._sender(claim, started_at)
            self._record(claim, sent, started_at)
        except Exception:
            # The lease runs out, and it is sent again.
            log.exception("delivery_not_recorded", delivery=str(claim.delivery.id))
        finally:
            with self._lock:
                del self._in_hand[claim.delivery.id]
            self._done.set()

    def _record(self, claim: Claim, sent: Sent, started_at: datetime) -> None:
        """Write the outcome down; a database that is away for a moment is asked again."""

        def write(connection: Connection) -> None:
            now = self._clock()
            record(connection, claim, sent, started_at=started_at, now=now, jitter=self._jitter)

        for attempt in range(1, RECORD_TRIES + 1):
            try:
                with self._database.write() as connection:
                    write(connection)
                    return
            except OperationalError as error:
                log.warning("delivery_not_recorded", reason=cause_of(error), attempt=attempt)
                time.sleep(0.2 * 2**attempt)

    def _renew(self) -> None:
        """Hold what takes long, so that nobody else sends it beside us."""
        if time.monotonic() - self._renewed_at < RENEW_EVERY_S:
            return
        self._renewed_at = time.monotonic()
        ids = [one.claim.delivery.id for one in self._busy()]
        if ids:
            until = self._clock() + timedelta(seconds=LEASE_S)
            with self._database.write() as connection:
                rows.renew(connection, ids, claimed_by=self.name, until=until)

    def _see_to_secrets(self) -> None:
        """Once a process: encrypt what lies plain, or say that it does."""
        if self._has_seen_to_secrets:
            return
        if self._settings.secrets_key:
            with self._database.read() as connection:
                waits = webhook_encryption.any_plain(connection)
            if waits:
                with self._database.write() as connection:
                    number = webhook_encryption.encrypt_plain(
                        connection, self._settings.secrets_key
                    )
                log.info("webhook_secrets_encrypted", endpoints=number)
        else:
            with self._database.read() as connection:
                if webhook_endpoints.any_endpoint(connection):
                    log.warning("webhook_secrets_not_encrypted", mend="set TRAINARD_SECRETS_KEY")
        self._has_seen_to_secrets = True
