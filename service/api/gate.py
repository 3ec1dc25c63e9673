"""What every operation passes: who is it, within the limits, and with the scope for it."""

from functools import partial

from service.api.authentication import Authenticator
from service.api.contract import ApiRequest, Contract
from service.api.rate_limits import RequestRates
from service.api.transactions import actor_of, in_thread
from service.db.engine import Database
from service.errors import ForbiddenError
from service.jobs import audit
from service.jobs.actors import Actor
from service.settings import Settings


class AccessGate:
    """Authenticates, and demands the scope of the operation's contract."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.authenticator = Authenticator(database, settings)
        self._database = database
        self._rates = RequestRates(database, settings.limits)

    async def admit(self, request: ApiRequest, contract: Contract) -> None:
        """Keep the actor for `actor_of`; raises 401, 429, and 403, which is recorded."""
        if contract.scope is None:
            return
        actor = await self.authenticator.actor(request)
        request.state.actor = actor
        await self._rates.admit(request.scope, actor)
        if not actor.may(contract.scope):
            detail = f"this needs the scope {contract.scope}, which {actor.name} has not"
            await self._record(actor, contract, "refused", detail)
            raise ForbiddenError(detail)

    async def note_answer(self, request: ApiRequest, contract: Contract, status: int) -> None:
        """Record a reading of money before it leaves; nobody is known while the service is open."""
        if not contract.reveals_costs or status not in {200, 201, 206}:
            return
        actor = actor_of(request)
        if actor.sees_costs and not actor.is_local:
            await self._record(actor, contract, "read", None)

    async def _record(
        self, actor: Actor, contract: Contract, outcome: audit.Outcome, detail: str | None
    ) -> None:
        await in_thread(
            partial(
                self._write, actor, action=contract.operation_id, outcome=outcome, detail=detail
            )
        )

    def _write(
        self, actor: Actor, *, action: str, outcome: audit.Outcome, detail: str | None
    ) -> None:
        with self._database.write() as connection:
            audit.record(connection, actor, action=action, outcome=outcome, detail=detail)
