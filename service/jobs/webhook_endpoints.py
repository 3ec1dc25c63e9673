"""Webhook endpoints of a team: make, read, change, rotate, try and delete them."""

from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from msgspec import UNSET, UnsetType, structs

from service.db import deliveries as deliveries_rows
from service.db import webhook_endpoints as rows
from service.db.engine import Connection, Row
from service.errors import (
    ConflictError,
    FieldFault,
    InvalidError,
    NotFoundError,
    PreconditionFailedError,
)
from service.jobs import audit, webhook_secrets
from service.jobs.actors import Actor
from service.jobs.cost_access import require_costs
from service.jobs.delivery_plans import message_id
from service.jobs.egress import EgressError, notice_of, place_of
from service.jobs.labels import label_faults
from service.jobs.page_tokens import make_token, read_token
from service.jobs.reason_sentences import coded, say
from service.jobs.webhook_documents import (
    EndpointChangeIn,
    EndpointIn,
    EndpointOut,
    EndpointPage,
    NewEndpointOut,
)
from service.jobs.webhook_payloads import encode, trial_event
from service.jobs.webhook_secrets import SecretsError, Vault
from service.jobs.webhook_signatures import mint
from service.settings import Settings

_QUERY: Final = ["webhook-endpoints"]
# Of one endpoint: whoever tries it again and again gives way to what was really sent.
MAX_TRIALS_WAITING: Final = 3


def create_endpoint(
    connection: Connection, actor: Actor, document: EndpointIn, settings: Settings, *, now: datetime
) -> NewEndpointOut:
    """Make an endpoint; the answer is the only place where its secret stands.

    Raises `InvalidError` with every fault, `ForbiddenError` for money without costs:read, and
    `ConflictError` when the team has as many as it may.
    """
    _refuse(_faults(document.name, document.url, settings))
    if document.include_costs:
        require_costs(actor, "a webhook endpoint that is sent money")
    if rows.num_endpoints(connection, actor.team_id) >= settings.limits.webhook_endpoints:
        raise ConflictError(
            f"the team has {settings.limits.webhook_endpoints} webhook endpoints, which is the "
            "limit: delete one first"
        )
    vault, secret = Vault(settings.deliveries.secrets_key), mint()
    endpoint_id = rows.insert_endpoint(
        connection,
        team_id=actor.team_id,
        created_at=now,
        updated_at=now,
        created_by=actor.name,
        name=document.name,
        url=document.url,
        secrets=webhook_secrets.first(vault, secret, now),
        include_costs=document.include_costs,
    )
    made = read_endpoint(connection, actor, endpoint_id, now=now)
    _record(connection, actor, "create_webhook_endpoint", after=made)
    return NewEndpointOut(secret=secret, **structs.asdict(made))


def read_endpoint(
    connection: Connection, actor: Actor, endpoint_id: UUID, *, now: datetime
) -> EndpointOut:
    """An endpoint of the team; raises `NotFoundError`."""
    return _shown(actor, _require(connection, actor, endpoint_id), now)


def list_page(
    connection: Connection,
    actor: Actor,
    *,
    page_size: int,
    page_token: str | None,
    now: datetime,
) -> EndpointPage:
    """A page of the team's endpoints, the oldest first."""
    after = read_token(page_token, _QUERY, UUID)
    found = rows.list_endpoints(connection, actor.team_id, after=after, limit=page_size + 1)
    shown = found[:page_size]
    return EndpointPage(
        items=[_shown(actor, row, now) for row in shown],
        next_page_token=make_token(_QUERY, shown[-1].id) if len(found) > page_size else None,
    )


def change_endpoint(
    connection: Connection,
    actor: Actor,
    endpoint_id: UUID,
    change: EndpointChangeIn,
    settings: Settings,
    *,
    version: int,
    now: datetime,
) -> EndpointOut:
    """Change what the document names; raises as `create_endpoint` does, and for a stale version.

    One that is, was or will be sent money is turned elsewhere, and taken back into use, only by
    those who may see money.
    """
    current = _at_version(connection, actor, endpoint_id, version)
    wanted = {"name": change.name, "url": change.url, "include_costs": change.include_costs}
    values: dict[str, Any] = {key: part for key, part in wanted.items() if part is not UNSET}
    is_enabled = current.disabled_at is None
    is_turned = any(
        values.get(key, former) != former
        for key, former in (("url", current.url), ("include_costs", current.include_costs))
    )
    if is_turned or (change.enabled is True and not is_enabled):
        _require_costs_of(connection, actor, current, gets_costs=values.get("include_costs", False))
    _refuse(_faults(values.get("name"), values.get("url"), settings))
    if change.enabled is True and not is_enabled:
        values |= {"disabled_at": None, "disabled_reason": None}
    if change.enabled is False and is_enabled:
        values |= {"disabled_at": now, "disabled_reason": say("disabled_by", name=actor.name)[:500]}
    if not rows.change_endpoint(connection, endpoint_id, version=version, now=now, values=values):
        raise _stale(current)
    if values.get("disabled_at") is not None:
        _cancel(connection, endpoint_id, "the endpoint was disabled", now)
    changed = read_endpoint(connection, actor, endpoint_id, now=now)
    _record(
        connection,
        actor,
        "change_webhook_endpoint",
        before=_shown(actor, current, now),
        after=changed,
    )
    return changed


def delete_endpoint(
    connection: Connection, actor: Actor, endpoint_id: UUID, *, version: int, now: datetime
) -> None:
    """Delete the endpoint with its secret, and cancel what waits for it; its log stays."""
    current = _at_version(connection, actor, endpoint_id, version)
    values = {"deleted_at": now, "secrets": []}
    if not rows.change_endpoint(connection, endpoint_id, version=version, now=now, values=values):
        raise _stale(current)
    _cancel(connection, endpoint_id, "the endpoint was deleted", now)
    before = _shown(actor, current, now)
    _record(connection, actor, "delete_webhook_endpoint", before=before, subject_of=before)


def rotate_secret(
    connection: Connection,
    actor: Actor,
    endpoint_id: UUID,
    settings: Settings,
    *,
    overlap_s: int,
    now: datetime,
) -> NewEndpointOut:
    """Make a new secret; the old ones sign beside it for `overlap_s`. Shown once.

    Raises `ForbiddenError` for an endpoint with money without costs:read, and `ConflictError`
    when as many sign already as can.
    """
    current = _require(connection, actor, endpoint_id)
    _require_costs_of(connection, actor, current)
    vault, secret = Vault(settings.deliveries.secrets_key), mint()
    try:
        stored = webhook_secrets.rotated(
            vault, current.secrets, secret, overlap_s=overlap_s, now=now
        )
    except SecretsError as error:
        raise ConflictError(str(error)) from error
    values = {"secrets": stored}
    if not rows.change_endpoint(
        connection, endpoint_id, version=current.version, now=now, values=values
    ):
        raise _stale(current)
    rotated = read_endpoint(connection, actor, endpoint_id, now=now)
    before = _shown(actor, current, now)
    _record(connection, actor, "rotate_webhook_secret", before=before, after=rotated)
    return NewEndpointOut(secret=secret, **structs.asdict(rotated))


def send_trial(connection: Connection, actor: Actor, endpoint_id: UUID, *, now: datetime) -> UUID:
    """Put a `webhook.test` into the outbox; the delivery's id. Raises `ConflictError`."""
    endpoint = _require(connection, actor, endpoint_id)
    if endpoint.disabled_at is not None:
        raise ConflictError(f"the webhook endpoint {endpoint.name!r} is disabled: enable it first")
    waiting = deliveries_rows.num_pending(connection, endpoint_id, "webhook.test")
    if waiting >= MAX_TRIALS_WAITING:
        raise ConflictError(
            f"{waiting} test messages wait for the webhook endpoint {endpoint.name!r} already, "
            "which is the limit"
        )
    reason = say("tried_by", name=actor.name)
    message = message_id()
    (delivery_id,) = deliveries_rows.insert_once(
        connection,
        [
            {
                "team_id": actor.team_id,
                "created_at": now,
                "created_by": actor.name,
                "message_id": message,
                "dedup_key": f"test:{message}",
                "event": "webhook.test",
                "kind": "webhook",
                "endpoint_id": endpoint.id,
                "target": {"kind": "webhook", "endpoint_id": str(endpoint.id)},
                "include_costs": False,
                "state": deliveries_rows.PENDING,
                "reason": reason,
                "payload": encode(trial_event(reason, now)),
                "next_attempt_at": now,
            }
        ],
    )
    audit.record(
        connection,
        actor,
        action="test_webhook_endpoint",
        subject=f"webhook-endpoint/{endpoint.id}",
        after={"message_id": message},
    )
    return delivery_id


def _require(connection: Connection, actor: Actor, endpoint_id: UUID) -> Row[Any]:
    row = rows.get_endpoint(connection, actor.team_id, endpoint_id)
    if row is None:
        raise NotFoundError(f"there is no webhook endpoint {endpoint_id}")
    return row


def _require_costs_of(
    connection: Connection, actor: Actor, endpoint: Row[Any], *, gets_costs: bool = False
) -> None:
    """Raise `ForbiddenError` when it has to do with money: now, by what waits, or by its log."""
    if (
        gets_costs
        or endpoint.include_costs
        or deliveries_rows.any_with_costs(connection, endpoint.id)
    ):
        require_costs(actor, "to say where money is sent")


def _at_version(connection: Connection, actor: Actor, endpoint_id: UUID, version: int) -> Row[Any]:
    row = _require(connection, actor, endpoint_id)
    if row.version != version:
        raise _stale(row)
    return row


def _stale(row: Row[Any]) -> PreconditionFailedError:
    return PreconditionFailedError(
        f"the webhook endpoint {row.name!r} has changed since it was read; read it again"
    )


def _cancel(connection: Connection, endpoint_id: UUID, error: str, now: datetime) -> None:
    deliveries_rows.cancel_pending(connection, endpoint_id, error=error, now=now)


def _faults(
    name: str | UnsetType | None, url: str | UnsetType | None, settings: Settings
) -> list[FieldFault]:
    faults = label_faults({"/name": name}) if isinstance(name, str) else []
    if isinstance(url, str):
        try:
            place_of(url, settings.deliveries.egress)
        except EgressError as error:
            faults.append(FieldFault(pointer="/url", code="url_refused", detail=str(error)))
    return faults


def _refuse(faults: list[FieldFault]) -> None:
    if faults:
        raise InvalidError("; ".join(fault.detail for fault in faults), errors=faults)


def _shown(actor: Actor, row: Row[Any], now: datetime) -> EndpointOut:
    parts, notice = urlsplit(row.url), notice_of(row.url)
    return EndpointOut(
        id=row.id,
        name=row.name,
        url=row.url if actor.may("webhooks:write") else f"{parts.scheme}://{parts.netloc}/…",
        notice=notice,
        notice_coded=coded(notice),
        include_costs=row.include_costs,
        enabled=row.disabled_at is None,
        disabled_at=row.disabled_at,
        disabled_reason=row.disabled_reason,
        disabled_reason_coded=coded(row.disabled_reason),
        old_secrets_end_at=webhook_secrets.ends_of_old(row.secrets, now),
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        version=row.version,
    )


def _record(
    connection: Connection,
    actor: Actor,
    action: str,
    *,
    before: EndpointOut | None = None,
    after: EndpointOut | None = None,
    subject_of: EndpointOut | None = None,
) -> None:
    about = after or subject_of
    subject = f"webhook-endpoint/{about.id}" if about is not None else ""
    audit.record(connection, actor, action=action, subject=subject, before=before, after=after)
