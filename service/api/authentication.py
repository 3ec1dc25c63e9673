"""Who sends a request: an API key, a bearer token, a session, or anybody while no key exists."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from service.api.contract import ApiRequest
from service.api.oidc import OidcTokens
from service.api.session_cookies import refuse_foreign_page, session_token
from service.api.shown_requests import address_of, described
from service.api.transactions import in_thread
from service.db.api_keys import any_key
from service.db.engine import Connection, Database, OperationalError
from service.db.failures import UNUSABLE_DATABASE
from service.errors import ForbiddenError, MalformedError, UnauthenticatedError
from service.jobs.actors import Actor
from service.jobs.api_keys import NOTED_EVERY_S, touch
from service.jobs.key_checks import KEY_PRINCIPAL, actor_of_key
from service.jobs.key_tokens import PREFIX
from service.jobs.web_sessions import actor_of_session
from service.settings import Settings

log = structlog.get_logger()

T = TypeVar("T")

# How long an open service may go on without knowing that the first key was made
OPEN_CHECK_S: Final = 0.2
MAX_TOKEN_LENGTH: Final = 16_384
# What proxies add to requests, beside X-Forwarded-…
FORWARDING: Final = frozenset(("forwarded", "via", "x-real-ip"))
# The problem of what a proxy sends while no key exists
FORWARDED: Final = "forwarded-while-open"
# Where the scope of a request names the key whose use is to be noted after the answer
_USED_KEY: Final = "trainard_used_key"


class Authenticator:
    """Finds the actor of a request; every key is looked up anew, so that revoking acts at once."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._tokens = OidcTokens(settings.oidc, database) if settings.oidc.issuer else None
        # Where an issuer is trusted everybody can be known.
        self._is_closed = bool(settings.oidc.issuer)
        self._is_known = False
        self._checked_at = -OPEN_CHECK_S
        # By key, which are few: nobody gets here without one
        self._noted_at: dict[str, float] = {}

    async def actor(self, request: ApiRequest) -> Actor:
        """The actor; raises `UnauthenticatedError` (401) and what `OidcTokens.actor` raises."""
        with _logged(request):
            return await self._found(request)

    async def actor_of_key(self, request: ApiRequest, text: str) -> Actor:
        """The actor of an API key that stands elsewhere than in a header; raises the same."""
        with _logged(request):
            return await self._of_key(request, text)

    async def _found(self, request: ApiRequest) -> Actor:
        token = _bearer_token(request)
        if token is None:
            if await self.is_open():
                _refuse_forwarded(request)
                return described(request, Actor())
            return await self._of_session(request)
        if token.startswith(PREFIX):
            return await self._of_key(request, token)
        if self._tokens is not None:
            return described(request, await self._tokens.actor(token))
        raise UnauthenticatedError("the bearer token is no API key (trn_<id>_<secret>)")

    async def _of_key(self, request: ApiRequest, text: str) -> Actor:
        now = datetime.now(UTC)
        actor = await in_thread(partial(self._read, lambda c: actor_of_key(c, text, now)))
        self._mark_use(request, actor)
        return described(request, actor)

    async def _of_session(self, request: ApiRequest) -> Actor:
        token = session_token(request.scope)
        if token is None:
            raise UnauthenticatedError(
                "the header Authorization is missing: send Bearer with an API key"
            )
        refuse_foreign_page(request.scope)
        now = datetime.now(UTC)
        actor, expires_at = await in_thread(
            partial(self._read, lambda c: actor_of_session(c, token, now))
        )
        request.state.session_expires_at = expires_at
        self._mark_use(request, actor)
        return described(request, actor)

    async def is_open(self) -> bool:
        """Whether no key was ever made: then everybody who reaches the service may do all."""
        if self._is_closed:
            return False
        now = time.monotonic()
        if now - self._checked_at >= OPEN_CHECK_S:
            await self._look_for_keys()
            self._checked_at = now
        return not self._is_closed

    async def _look_for_keys(self) -> None:
        try:
            self._is_closed = await in_thread(partial(self._read, any_key))
            self._is_known = True
        except OperationalError:
            # What it was is good enough: nobody can make a key meanwhile. Metrics go on.
            if not self._is_known:
                raise

    def stay_closed(self) -> None:
        """Let nobody in without a key, even when all keys were taken out of the database."""
        self._is_closed = True

    async def warn_if_open(self) -> None:
        """Write into the log that everybody who reaches the service may do all."""
        if self._is_closed:
            return
        # Not through `is_open`, which would hold this answer for a while.
        try:
            has_keys = await in_thread(partial(self._read, any_key))
        except UNUSABLE_DATABASE:
            # Away, or not migrated yet: readiness and every request say so.
            return
        if not has_keys:
            log.warning(
                "open_without_authentication",
                detail="everybody who reaches this service may read and change all: "
                "trainard key create --role admin",
            )

    async def note_use(self, scope: Any) -> None:
        """Write down, once a minute, that a key was used; call it after the answer was sent."""
        public_id = scope.pop(_USED_KEY, None)
        if public_id is None:
            return
        try:
            await in_thread(partial(self._touch, public_id))
        except OperationalError as error:
            # The answer was right; the next minute notes it.
            log.warning("key_use_not_noted", key=public_id, reason=str(error.orig))

    def _mark_use(self, request: ApiRequest, actor: Actor) -> None:
        public_id = actor.principal.removeprefix(KEY_PRINCIPAL)
        now = time.monotonic()
        noted_at = self._noted_at.get(public_id)
        if noted_at is None or now - noted_at >= NOTED_EVERY_S:
            self._noted_at[public_id] = now
            scope: Any = request.scope
            scope[_USED_KEY] = public_id

    def _touch(self, public_id: str) -> None:
        with self._database.write() as connection:
            touch(connection, public_id, datetime.now(UTC))

    def _read(self, use_case: Callable[[Connection], T]) -> T:
        with self._database.read() as connection:
            return use_case(connection)


@contextmanager
def _logged(request: ApiRequest) -> Iterator[None]:
    """Write a refusal into the log."""
    try:
        yield
    except (UnauthenticatedError, ForbiddenError) as error:
        # The reason holds nothing of a secret; the line of the request has its status only.
        log.warning("authentication_failed", reason=error.detail, address=address_of(request.scope))
        raise


def _bearer_token(request: ApiRequest) -> str | None:
    values = request.headers.getall("authorization", [])
    if not values:
        return None
    if len(values) > 1:
        raise MalformedError("the header Authorization stands twice")
    scheme, _, token = values[0].strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise UnauthenticatedError("the header Authorization must be: Bearer, a space, the key")
    if len(token) > MAX_TOKEN_LENGTH:
        raise UnauthenticatedError(f"the bearer token is longer than {MAX_TOKEN_LENGTH} characters")
    return token


def _refuse_forwarded(request: ApiRequest) -> None:
    """Who comes through a proxy on this machine may be anybody behind it."""
    for name in request.headers:
        if name in FORWARDING or name.startswith("x-forwarded-"):
            raise ForbiddenError(
                f"the header {name} says that a proxy sent this, but no key exists yet: "
                "trainard key create --role admin",
                problem=FORWARDED,
            )
