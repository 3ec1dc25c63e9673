"""What the audit trail keeps of requests that change nothing: refusals, and readings of money."""

import time
from functools import partial
from typing import Final

import structlog

from service.api.contract import ApiRequest, Contract
from service.api.shown_requests import described, shown_path
from service.api.transactions import in_thread
from service.db.engine import Database, OperationalError
from service.db.failures import cause_of, disk_fault
from service.errors import UnavailableError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.key_checks import KeyRefusedError, actor_of_row

REFUSED_KEY_EVERY_S: Final = 60.0

log = structlog.get_logger()


class AccessNotes:
    """Writes them, each in a transaction of its own, before the answer is sent."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # By public id and reason: as many as there are keys, since unknown ones are not noted
        self._noted_at: dict[tuple[str, str], float] = {}

    async def refused(
        self, request: ApiRequest, contract: Contract, actor: Actor, detail: str
    ) -> None:
        """Somebody known was refused what is asked for."""
        await self._record(request, contract, actor, "refused", detail)

    async def refused_key(
        self, request: ApiRequest, contract: Contract, error: KeyRefusedError
    ) -> None:
        """A key that exists was refused: its secret is wrong, or it is expired or revoked.

        Its team learns of it, at most once a minute for each key and reason and process: a flood
        of bad requests must neither fill the trail nor hold up the team's changes. Whoever sends
        a key that never existed has no team; the log of requests has the refusal.
        """
        key = (error.key.public_id, error.reason)
        now = time.monotonic()
        last = self._noted_at.get(key)
        if last is not None and now - last < REFUSED_KEY_EVERY_S:
            return
        self._noted_at[key] = now
        actor = described(request, actor_of_row(error.key))
        detail = f"the key is refused: {error.reason}; at most one event a minute tells of it"
        await self._record(request, contract, actor, "refused", detail)

    async def read(self, request: ApiRequest, contract: Contract, actor: Actor) -> None:
        """Money is about to be shown; raises `UnavailableError` when that cannot be recorded."""
        await self._record(request, contract, actor, "read", None)

    async def _record(
        self,
        request: ApiRequest,
        contract: Contract,
        actor: Actor,
        outcome: audit.Outcome,
        detail: str | None,
    ) -> None:
        write = partial(
            self._write,
            actor,
            action=contract.operation_id,
            subject=shown_path(request.scope),
            outcome=outcome,
            detail=detail,
        )
        try:
            await in_thread(write)
        except OperationalError as error:
            log.warning(
                "audit_failed",
                action=contract.operation_id,
                outcome=outcome,
                reason=cause_of(error),
            )
            raise _unrecorded(disk_fault(error)) from error
        except Exception as error:
            # Whatever it was: what cannot be recorded is not answered.
            log.exception("audit_failed", action=contract.operation_id, outcome=outcome)
            raise _unrecorded(None) from error

    def _write(
        self, actor: Actor, *, action: str, subject: str, outcome: audit.Outcome, detail: str | None
    ) -> None:
        with self._database.write() as connection:
            audit.record(
                connection, actor, action=action, subject=subject, outcome=outcome, detail=detail
            )


def _unrecorded(reason: str | None) -> UnavailableError:
    detail = "this is recorded in the audit trail, which cannot be written now"
    return UnavailableError(f"{detail}: {reason}" if reason else detail)
