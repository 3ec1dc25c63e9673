"""`/v1/audit-events`: who changed what, who was refused, who was shown money."""

from typing import Annotated

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta

from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.list_queries import Moment, PageQuery, in_utc
from service.api.pages import page_answer
from service.api.parameters import read_query
from service.api.transactions import actor_of
from service.db.audit import AuditFilter
from service.jobs import audit_events
from service.jobs.audit import PROGRAM_ACTIONS
from service.jobs.audit_documents import AuditEventPage, Outcome

TAG = "Audit trail"


class AuditListQuery(PageQuery, frozen=True, kw_only=True):
    """Filters of the list of events."""

    action: (
        Annotated[str, Meta(max_length=64, description="Only of this action: an operation's id.")]
        | None
    ) = None
    actor: Annotated[str, Meta(max_length=200, description="Only of this name.")] | None = None
    outcome: Annotated[Outcome, Meta(description="Only of this outcome.")] | None = None
    subject: (
        Annotated[
            str,
            Meta(
                max_length=300,
                description="Only about this.",
                examples=["cluster-profile/prod-h100"],
            ),
        ]
        | None
    ) = None
    created_after: Moment | None = None
    created_before: Moment | None = None


@operation(
    "GET",
    "/v1/audit-events",
    Contract(
        operation_id="list_audit_events",
        scope="audit:read",
        summary="List the events of the team's audit trail, newest first",
        description="One event for each change (`done`), refused access (`refused`) and answer "
        "with money (`read`); the service's own changes are those of the programs `retention`, "
        "`prune` and the like. `action` is the id of the operation, or "
        + ", or ".join(f"`{name}` ({words})" for name, words in PROGRAM_ACTIONS.items())
        + ". Values are not among it: the names of the fields that changed, and digests of the "
        "documents before and after. Within a second each event is chained to the one before by "
        "its `hash`, so that `trainard audit verify` finds what was altered, removed or put in.",
        tag=TAG,
        query=AuditListQuery,
        answers={
            200: Answer(description="A page of events", body=AuditEventPage, headers=("Link",))
        },
    ),
)
async def list_audit_events(request: ApiRequest) -> ApiResponse:
    """Answer with a page of events."""
    query = read_query(request, AuditListQuery)
    wanted = AuditFilter(
        action=query.action,
        actor=query.actor,
        outcome=query.outcome,
        subject=query.subject,
        created_after=in_utc("created_after", query.created_after),
        created_before=in_utc("created_before", query.created_before),
    )
    return await page_answer(
        request,
        query,
        lambda c, size, token: audit_events.list_page(
            c, actor_of(request), wanted, page_size=size, page_token=token
        ),
    )


routes: list[HTTPRouteHandler] = [list_audit_events]
