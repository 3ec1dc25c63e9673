"""One attempt at a delivery: what it holds is made, and it is posted, mailed or written."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

import msgspec
import structlog

from service.db.engine import Database, OperationalError
from service.jobs import drops, mail, webhook_posts, webhook_secrets, webhook_signatures
from service.jobs.delivery_attempts import Claim, Sent
from service.jobs.delivery_contents import dropped_files, letter_of, read_told
from service.jobs.delivery_rules import is_address, is_allowed_domain
from service.jobs.egress import Resolver
from service.jobs.reason_sentences import say
from service.jobs.schedule_documents import (
    DeliveryIn,
    DirectoryDelivery,
    EmailDelivery,
    WebhookDelivery,
)
from service.settings import Deliveries

GONE: Final = 410

log = structlog.get_logger()


def send(
    claim: Claim,
    database: Database,
    settings: Deliveries,
    *,
    now: datetime,
    resolve: Resolver | None = None,
) -> Sent:
    """Try it once; whatever goes wrong is said in what is returned, nothing is raised."""
    try:
        delivery = target_of(claim.delivery)
        match delivery:
            case WebhookDelivery():
                return _post(claim, settings, now, resolve)
            case EmailDelivery():
                return _mail(claim, delivery, database, settings)
            case DirectoryDelivery():
                return _drop(claim, delivery, database, settings, now)
            case _:
                assert_never(delivery)
    except OperationalError:
        return Sent(is_delivered=False, error=say("database_away"))
    except Exception:
        # One delivery that cannot be made must not stop the others.
        log.exception("delivery_failed", delivery=str(claim.delivery.id))
        return Sent(is_delivered=False, error=say("unexpected_error"))


def target_of(row: Any) -> DeliveryIn:
    """What the schedule said of the place."""
    found: DeliveryIn = msgspec.convert(row.target, DeliveryIn)
    return found


def _post(claim: Claim, settings: Deliveries, now: datetime, resolve: Resolver | None) -> Sent:
    endpoint, payload = claim.endpoint, claim.payload
    if endpoint is None or payload is None:
        return Sent(is_delivered=False, error=say("no_message"), is_permanent=True)
    try:
        vault = webhook_secrets.Vault(settings.secrets_key)
        secrets = webhook_secrets.live(vault, endpoint.secrets, now)
    except webhook_secrets.SecretError as error:
        return Sent(is_delivered=False, error=str(error))
    headers = webhook_signatures.headers(
        payload, message_id=claim.delivery.message_id, sent_at=now, secrets=secrets
    )
    posted = webhook_posts.post(
        endpoint.url, payload, headers, networks=settings.egress, resolve=resolve
    )
    return Sent(
        is_delivered=posted.is_delivered,
        status=posted.status,
        error=posted.error,
        answer=posted.answer,
        retry_after_s=posted.retry_after_s,
        is_permanent=posted.status == GONE,
        is_gone=posted.status == GONE,
    )


def _mail(claim: Claim, delivery: EmailDelivery, database: Database, settings: Deliveries) -> Sent:
    if not settings.smtp_url:
        return Sent(is_delivered=False, error=say("mail_off"))
    known = claim.delivery.outcome or {}
    accepted: list[str] = list(known.get("accepted", ()))
    refused: dict[str, str] = dict(known.get("refused", {}))
    for address in delivery.to:
        if not is_address(address):
            refused.setdefault(address, "it is no address such as a@b.org")
        elif not is_allowed_domain(address, settings.email_domains):
            refused.setdefault(address, "its domain is not in TRAINARD_EMAIL_DOMAINS")
    left = [one for one in delivery.to if one not in accepted and one not in refused]
    mailed = mail.Mailed()
    if left:
        with database.read() as connection:
            told = read_told(connection, claim.delivery)
        if told is None:
            return _without_report()
        letter = letter_of(claim.delivery, delivery, told, settings)
        smaller = None
        if letter.attachments:
            smaller = letter_of(claim.delivery, delivery, told, settings, attaches=False)
        mailed = mail.send(settings.smtp_url, letter, left, smaller=smaller)
    accepted += mailed.accepted
    refused |= mailed.refused
    waiting = [one for one in delivery.to if one not in accepted and one not in refused]
    return Sent(
        is_delivered=bool(accepted) and not waiting,
        status=mailed.status,
        error=_of_recipients(mailed, refused),
        is_permanent=mailed.is_permanent or not waiting,
        outcome={"accepted": accepted, "refused": refused},
    )


def _of_recipients(mailed: mail.Mailed, refused: dict[str, str]) -> str | None:
    if mailed.error is not None:
        return mailed.error
    return "; ".join(f"{address}: {reason}" for address, reason in refused.items()) or None


def _drop(
    claim: Claim,
    delivery: DirectoryDelivery,
    database: Database,
    settings: Deliveries,
    now: datetime,
) -> Sent:
    if not settings.folder:
        return Sent(is_delivered=False, error=say("folder_off"))
    with database.read() as connection:
        told = read_told(connection, claim.delivery)
    if told is None:
        return _without_report()
    try:
        files = drops.write(
            settings.folder,
            delivery.folder,
            dropped_files(claim.delivery, delivery, told),
            team=told.team,
        )
    except drops.DropError as error:
        return Sent(is_delivered=False, error=str(error))
    expires = now + timedelta(days=delivery.keep_days) if delivery.keep_days else None
    return Sent(
        is_delivered=True,
        outcome={"team": told.team, "folder": delivery.folder, "files": _builtins(files)},
        files_expire_at=expires,
    )


def _builtins(files: Sequence[drops.DroppedFile]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.to_builtins(files)
    return found


def _without_report() -> Sent:
    return Sent(is_delivered=False, error=say("report_gone"), is_permanent=True)
