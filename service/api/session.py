"""`/v1/session`: who looks at the pages of this service, signing in and signing out."""

from datetime import UTC, datetime
from functools import partial

from litestar.handlers import HTTPRouteHandler

from service.api.answers import empty_answer, json_answer
from service.api.authentication import FORWARDED
from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.gate import AccessGate
from service.api.parameters import refuse_query
from service.api.session_cookies import (
    clear_cookie,
    refuse_foreign_page,
    session_token,
    set_cookie,
)
from service.api.shown_requests import described
from service.api.transactions import read, settings_of, write
from service.db.teams import slug_of
from service.errors import (
    ConflictError,
    FieldFault,
    ForbiddenError,
    InvalidError,
    UnauthenticatedError,
)
from service.jobs import web_sessions
from service.jobs.actors import Actor
from service.jobs.key_tokens import PREFIX
from service.jobs.scopes import SCOPES
from service.jobs.web_session_documents import SessionOut, SignInIn

TAG = "Sessions"
PATH = "/v1/session"
NOBODY = SessionOut(is_open=False, signed_in=False)
POINTER = "/key"
UNSTORED = {"Cache-Control": "no-store"}

SIGN_IN = Contract(
    operation_id="sign_in",
    scope=None,
    summary="Sign in with an API key",
    description="The answer sets a cookie, `trainard_session` (behind TLS "
    "`__Host-trainard_session`), which stands for the key in requests of the service's own pages "
    "until it is signed out, the key is revoked or expires, or the hours of "
    "TRAINARD_SESSION_HOURS have passed. A token of an issuer cannot sign in. 409 while no key "
    "exists: nobody has to.",
    tag=TAG,
    body=SignInIn,
    body_examples={"a key": {"key": f"{PREFIX}{'0' * 16}_{'A' * 43}"}},
    problems=(401, 409, 429),
    answers={201: Answer(description="Signed in", body=SessionOut, headers=("Set-Cookie",))},
)


@operation(
    "GET",
    PATH,
    Contract(
        operation_id="read_session",
        scope=None,
        summary="Read who sends the request, and what they may do",
        description="Answered to everybody: who is not known, or no longer, is not signed in.",
        tag=TAG,
        answers={200: Answer(description="Who it is", body=SessionOut)},
    ),
)
async def read_session(request: ApiRequest) -> ApiResponse:
    """Answer with who it is."""
    refuse_query(request)
    return json_answer(await _found(request), headers=UNSTORED)


@operation("POST", PATH, SIGN_IN)
async def sign_in(request: ApiRequest) -> ApiResponse:
    """Open a session; one that the browser still has is closed."""
    refuse_query(request)
    _refuse_other_pages(request)
    key = (await read_body(request, SignInIn)).key
    gate = _gate(request)
    if await gate.authenticator.is_open():
        raise ConflictError("no key was ever made: nobody has to sign in", problem="no-key-needed")
    if not key.startswith(PREFIX):
        raise _no_key(key)
    try:
        actor = await gate.admit_key(request, SIGN_IN, key)
    except UnauthenticatedError as error:
        fault = FieldFault(pointer=POINTER, code="refused_key", detail=error.detail)
        raise UnauthenticatedError(error.detail, errors=[fault]) from error
    await _close(request)
    now, hours = datetime.now(UTC), settings_of(request).session_hours
    opened = await write(
        request, lambda c: web_sessions.open_session(c, actor, hours=hours, now=now)
    )
    request.state.session_expires_at = opened.expires_at
    headers = {"Set-Cookie": set_cookie(request.scope, opened.token), **UNSTORED}
    return json_answer(await _described(request, actor), status=201, headers=headers)


@operation(
    "DELETE",
    PATH,
    Contract(
        operation_id="sign_out",
        scope=None,
        summary="Sign out",
        description="Ends the session of the cookie, whoever else has a copy of it. Harmless "
        "without one.",
        tag=TAG,
        answers={204: Answer(description="Signed out", headers=("Set-Cookie",))},
    ),
)
async def sign_out(request: ApiRequest) -> ApiResponse:
    """Close the session."""
    refuse_query(request)
    if session_token(request.scope) is not None:
        refuse_foreign_page(request.scope)
        await _close(request)
    return empty_answer(204, headers={"Set-Cookie": clear_cookie(request.scope), **UNSTORED})


async def _close(request: ApiRequest) -> None:
    token = session_token(request.scope)
    if token:
        now = datetime.now(UTC)
        describe = partial(described, request)
        await write(request, lambda c: web_sessions.close_session(c, token, now, describe))


async def _found(request: ApiRequest) -> SessionOut:
    authenticator = _gate(request).authenticator
    shows_nothing = session_token(request.scope) is None and "authorization" not in request.headers
    if shows_nothing and not await authenticator.is_open():
        # A visitor, and nothing for the log
        return NOBODY
    try:
        actor = await authenticator.actor(request)
    except UnauthenticatedError:
        return NOBODY
    except ForbiddenError as error:
        if error.problem == FORWARDED:
            # Signing in would not help: it must be told.
            raise
        return NOBODY
    return await _described(request, actor)


async def _described(request: ApiRequest, actor: Actor) -> SessionOut:
    if actor.is_local:
        return SessionOut(is_open=True, signed_in=False, scopes=SCOPES)
    return SessionOut(
        is_open=False,
        signed_in=True,
        name=actor.name,
        role=actor.role,
        team=await read(request, lambda c: slug_of(c, actor.team_id)),
        scopes=tuple(scope for scope in SCOPES if actor.may(scope)),
        expires_at=request.state.get("session_expires_at"),
    )


def _refuse_other_pages(request: ApiRequest) -> None:
    """A page of somebody else must not sign this browser in; programs say nothing of pages."""
    if any(name in request.headers for name in ("origin", "sec-fetch-site")):
        refuse_foreign_page(request.scope)


def _no_key(text: str) -> InvalidError:
    # Not repeated: it may be another secret.
    detail = "this is no API key (trn_<id>_<secret>)"
    if text.count(".") == 2:
        detail = (
            "a token of an issuer cannot sign in: send it as Authorization: Bearer with each "
            "request, or sign in with an API key (trn_<id>_<secret>)"
        )
    fault = FieldFault(pointer=POINTER, code="no_api_key", detail=detail)
    return InvalidError(detail, errors=[fault])


def _gate(request: ApiRequest) -> AccessGate:
    gate: AccessGate = request.app.state.gate
    return gate


routes: list[HTTPRouteHandler] = [read_session, sign_in, sign_out]
