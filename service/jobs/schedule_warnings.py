"""What is allowed in a schedule and yet may not be what was meant."""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from service.db import profiles, webhook_endpoints
from service.db.engine import Connection
from service.jobs.batch_documents import Notice
from service.jobs.schedule_documents import DeliveryIn, ScheduleIn, WebhookDelivery

# Without an amount or a currency: whoever may see no money may read it.
_TELLS_NOBODY: Final = Notice(
    pointer="/budget/cost_of_loss_per_30_days",
    code="budget_tells_nobody",
    detail="nobody is told when the budget of money is passed: no delivery has `include_costs` (of "
    "webhooks the endpoint too), and without it a message neither says anything of money nor is "
    "sent because of it; the run and its report do say it",
)


def warnings_of(connection: Connection, team_id: UUID, body: ScheduleIn) -> list[Notice]:
    """What whoever makes or reads the schedule should know."""
    found = [
        *_of_profiles(connection, team_id, body),
        *(
            notice
            for position, delivery in enumerate(body.deliveries)
            for notice in _of_delivery(
                connection, team_id, delivery, body, f"/deliveries/{position}"
            )
        ),
    ]
    if body.budget is None or body.budget.cost_of_loss_per_30_days is None:
        return found
    if any(_tells_money(connection, team_id, delivery) for delivery in body.deliveries):
        return found
    return [*found, _TELLS_NOBODY]


def _of_profiles(connection: Connection, team_id: UUID, body: ScheduleIn) -> Iterator[Notice]:
    """One for each archived profile, at the first item that takes it: a night without is failed."""
    first: dict[str, int] = {}
    for position, item in enumerate(body.batch.items):
        if item.profile is not None:
            # `slug@revision` too: an archived profile takes no new work at any of its revisions.
            first.setdefault(item.profile.partition("@")[0], position)
    archived = profiles.archived_slugs(connection, team_id, first) if first else set()
    for slug, position in first.items():
        if slug in archived:
            yield Notice(
                pointer=f"/batch/items/{position}/profile",
                code="profile_archived",
                detail=f"every run fails: the profile {slug!r} is archived and takes no new work",
            )


def _of_delivery(
    connection: Connection, team_id: UUID, delivery: DeliveryIn, body: ScheduleIn, place: str
) -> Iterator[Notice]:
    """What becomes of it other than it says."""
    if delivery.when == "on_change" and body.baseline is None:
        detail = "it is sent after every run: without a `baseline` nothing tells what has changed"
        yield Notice(pointer=f"{place}/when", code="change_of_nothing", detail=detail)
    if delivery.include_costs and body.batch.currency is None:
        detail = "it holds no money: the batch has no `currency`, and nothing has a price without"
        yield Notice(pointer=f"{place}/include_costs", code="costs_without_currency", detail=detail)
    if not isinstance(delivery, WebhookDelivery):
        return
    endpoint = webhook_endpoints.get_endpoint(connection, team_id, delivery.endpoint_id)
    if endpoint is None:
        code, what = "endpoint_deleted", f"the webhook endpoint {delivery.endpoint_id} was deleted"
    elif endpoint.disabled_at is not None:
        code, what = "endpoint_disabled", f"the webhook endpoint {endpoint.name!r} is disabled"
    else:
        return
    yield Notice(
        pointer=f"{place}/endpoint_id", code=code, detail=f"nobody is told by this: {what}"
    )


def _tells_money(connection: Connection, team_id: UUID, delivery: DeliveryIn) -> bool:
    if not delivery.include_costs or not isinstance(delivery, WebhookDelivery):
        return delivery.include_costs
    endpoint = webhook_endpoints.get_endpoint(connection, team_id, delivery.endpoint_id)
    return endpoint is not None and endpoint.include_costs and endpoint.disabled_at is None
