"""`/v1/session`: who looks at the pages of this service."""

from litestar.handlers import HTTPRouteHandler

from service.api.answers import json_answer
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.gate import AccessGate
from service.api.parameters import refuse_query
from service.api.transactions import read
from service.db.teams import slug_of
from service.errors import ForbiddenError, UnauthenticatedError
from service.jobs.scopes import SCOPES
from service.jobs.web_session_documents import SessionOut

TAG = "Sessions"
PATH = "/v1/session"
NOBODY = SessionOut(is_open=False, signed_in=False)


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
    return json_answer(await _described(request), headers={"Cache-Control": "no-store"})


async def _described(request: ApiRequest) -> SessionOut:
    gate: AccessGate = request.app.state.gate
    try:
        actor = await gate.authenticator.actor(request)
    except (UnauthenticatedError, ForbiddenError):
        return NOBODY
    if actor.is_local:
        return SessionOut(is_open=True, signed_in=False, scopes=SCOPES)
    return SessionOut(
        is_open=False,
        signed_in=True,
        name=actor.name,
        role=actor.role,
        team=await read(request, lambda c: slug_of(c, actor.team_id)),
        scopes=tuple(scope for scope in SCOPES if actor.may(scope)),
    )


routes: list[HTTPRouteHandler] = [read_session]
