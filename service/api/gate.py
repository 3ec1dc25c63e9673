"""What every operation passes: who is it, within the limits, and with the scope for it."""

from service.api.access_notes import AccessNotes
from service.api.authentication import Authenticator
from service.api.contract import ApiRequest, Contract
from service.api.rate_limits import RequestRates
from service.api.shown_requests import address_of
from service.api.sign_in_attempts import SignInAttempts
from service.api.transactions import actor_of
from service.db.engine import Database, OperationalError
from service.errors import (
    ForbiddenError,
    TrainardError,
    UnauthenticatedError,
    UnavailableError,
)
from service.jobs.actors import Actor
from service.jobs.key_checks import KEY_PRINCIPAL, KeyRefusedError
from service.settings import Settings


class AccessGate:
    """Authenticates, and demands the scope of the operation's contract."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.authenticator = Authenticator(database, settings)
        self._notes = AccessNotes(database)
        self._rates = RequestRates(database, settings.limits)
        self._attempts = SignInAttempts()
        self._public = {"get_metrics"} if settings.public_metrics else frozenset[str]()

    async def admit(self, request: ApiRequest, contract: Contract) -> None:
        """Keep the actor for `actor_of`; raises 401, 429, and 403, which is recorded."""
        if contract.scope is None or contract.operation_id in self._public:
            return
        try:
            actor = await self.authenticator.actor(request)
        except KeyRefusedError as error:
            await self._notes.refused_key(request, contract, error)
            raise
        request.state.actor = actor
        await self._rates.admit(request.scope, actor)
        if not actor.may(contract.scope):
            detail = f"this needs the scope {contract.scope}, which {actor.name} has not"
            await self._notes.refused(request, contract, actor, detail)
            raise ForbiddenError(detail)

    async def admit_key(self, request: ApiRequest, contract: Contract, text: str) -> Actor:
        """Whose key it is that somebody signs in with; raises 401, which is recorded, and 429."""
        address = address_of(request.scope) or ""
        self._attempts.admit(address)
        try:
            actor = await self.authenticator.actor_of_key(request, text)
        except UnauthenticatedError as error:
            self._attempts.note_refused(address)
            if isinstance(error, KeyRefusedError):
                await self._notes.refused_key(request, contract, error)
            raise
        request.state.actor = actor
        await self._rates.admit(request.scope, actor)
        return actor

    async def still_admits(self, request: ApiRequest) -> bool:
        """Whether the caller of an answer that goes on and on may still be told more.

        A key may be revoked meanwhile; a token of an issuer cannot be, and an answer begun in its
        time is ended. That it cannot be found out is no reason to end the answer: its caller
        would only come back at once.
        """
        if not actor_of(request).principal.startswith(KEY_PRINCIPAL):
            return True
        try:
            await self.authenticator.actor(request)
        except (OperationalError, UnavailableError):
            return True
        except TrainardError:
            return False
        return True

    async def note_answer(self, request: ApiRequest, contract: Contract, status: int) -> None:
        """Record a reading of money before it leaves; nobody is known while the service is open."""
        is_replay = contract.scope == "costs:write" and request.state.get("replayed", False)
        if not (contract.reveals_costs or is_replay) or status not in {200, 201, 206}:
            return
        if request.state.get("shows_no_costs"):
            return
        actor = actor_of(request)
        if actor.sees_costs and not actor.is_local:
            await self._notes.read(request, contract, actor)

    async def note_refusal(
        self, request: ApiRequest, contract: Contract, error: ForbiddenError
    ) -> None:
        """Record that the operation itself has refused what needs another scope."""
        if contract.scope is not None:
            await self._notes.refused(request, contract, actor_of(request), error.detail)
