"""What a schedule may ask for: whether its deliveries can be sent by this service, and may be."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from service.db import webhook_endpoints
from service.db.engine import Connection
from service.errors import FieldFault
from service.jobs.actors import Actor
from service.jobs.schedule_documents import (
    ChangeThreshold,
    DeliveryIn,
    DirectoryDelivery,
    EmailDelivery,
    WebhookDelivery,
)
from service.settings import Deliveries

MAX_FOLDER_DEPTH: Final = 8
# Of RFC 5321, without quoted local parts and address literals, in ASCII, at a domain with a dot:
# what people have. No `=?`, by which mail programs know text that is to be decoded, and no hyphen
# at the beginning, by which programs know their options.
_ADDRESS: Final = re.compile(
    r"(?=.{3,254}\Z)(?=[^@]{1,64}@)(?!-|.*=\?)"
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)
_FOLDER_PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", re.ASCII)


def check(
    connection: Connection, actor: Actor, deliveries: Sequence[DeliveryIn], settings: Deliveries
) -> list[FieldFault]:
    """Every fault of what a schedule asks for, with its place under `/deliveries`."""
    found: list[FieldFault] = []
    folders: set[str] = set()
    for position, delivery in enumerate(deliveries):
        place = f"/deliveries/{position}"
        found += _shared(actor, delivery, place)
        match delivery:
            case WebhookDelivery():
                found += _webhook(connection, actor, delivery, place)
            case EmailDelivery():
                found += _email(delivery, settings, place)
            case DirectoryDelivery():
                found += _directory(delivery, settings, place)
                if delivery.folder in folders:
                    detail = (
                        f"{delivery.folder!r} stands twice: files of the same names would "
                        "overwrite each other"
                    )
                    found.append(_fault(f"{place}/folder", "repeated", detail))
                folders.add(delivery.folder)
    return found


def is_address(text: str) -> bool:
    """Whether mail can be sent to it."""
    return _ADDRESS.fullmatch(text) is not None


def is_allowed_domain(address: str, domains: Sequence[str]) -> bool:
    """Whether mail may go there: to a listed domain or below it; none listed: to any."""
    domain = address.rpartition("@")[2].lower()
    return not domains or any(
        domain == part or domain.endswith(f".{part}") for part in map(str.lower, domains)
    )


def folder_parts(folder: str) -> list[str] | None:
    """The parts of a relative folder; None for one that is refused."""
    parts = folder.split("/")
    if len(parts) > MAX_FOLDER_DEPTH or not all(_FOLDER_PART.fullmatch(part) for part in parts):
        return None
    return parts


def _fault(pointer: str, code: str, detail: str) -> FieldFault:
    return FieldFault(pointer=pointer, code=code, detail=detail)


def _shared(actor: Actor, delivery: DeliveryIn, place: str) -> Iterator[FieldFault]:
    threshold = delivery.threshold
    if threshold is not None and delivery.when != "on_change":
        detail = f"a threshold is of `on_change` only, but `when` is {delivery.when}"
        yield _fault(f"{place}/threshold", "threshold_without_change", detail)
    if threshold == ChangeThreshold():
        yield _fault(f"{place}/threshold", "empty_threshold", "it names neither hours nor relative")
    if delivery.include_costs and not actor.sees_costs:
        detail = f"to send money needs the scope costs:read, which {actor.name} has not"
        yield _fault(f"{place}/include_costs", "needs_costs_read", detail)


def _webhook(
    connection: Connection, actor: Actor, delivery: WebhookDelivery, place: str
) -> Iterator[FieldFault]:
    endpoint = webhook_endpoints.get_endpoint(connection, actor.team_id, delivery.endpoint_id)
    if endpoint is None:
        detail = f"there is no webhook endpoint {delivery.endpoint_id}"
        yield _fault(f"{place}/endpoint_id", "unknown_endpoint", detail)
    elif delivery.include_costs and not endpoint.include_costs:
        detail = f"the webhook endpoint {endpoint.name!r} takes no money: change its include_costs"
        yield _fault(f"{place}/include_costs", "endpoint_without_costs", detail)


def _email(delivery: EmailDelivery, settings: Deliveries, place: str) -> Iterator[FieldFault]:
    if not settings.smtp_url:
        detail = "this service sends no mail: TRAINARD_SMTP_URL is not set"
        yield _fault(f"{place}/kind", "mail_not_set_up", detail)
    seen: set[str] = set()
    for position, address in enumerate(delivery.to):
        pointer = f"{place}/to/{position}"
        if not is_address(address):
            yield _fault(pointer, "malformed_address", f"{address!r} is no address such as a@b.org")
        elif not is_allowed_domain(address, settings.email_domains):
            domains = ", ".join(settings.email_domains)
            detail = f"mail may go to {domains} only, but {address!r} is elsewhere"
            yield _fault(pointer, "domain_not_allowed", detail)
        if address.lower() in seen:
            yield _fault(pointer, "repeated", f"{address!r} stands twice")
        seen.add(address.lower())
    yield from _repeated(delivery.attach, f"{place}/attach")


def _directory(
    delivery: DirectoryDelivery, settings: Deliveries, place: str
) -> Iterator[FieldFault]:
    if not settings.folder:
        detail = "this service writes no files: TRAINARD_DELIVERY_FOLDER is not set"
        yield _fault(f"{place}/kind", "folder_not_set_up", detail)
    if folder_parts(delivery.folder) is None:
        detail = (
            f"{delivery.folder!r} is refused: at most {MAX_FOLDER_DEPTH} parts of letters, digits, "
            "`.`, `_` and `-`, each beginning with a letter, digit or `_`, with `/` between them"
        )
        yield _fault(f"{place}/folder", "malformed_folder", detail)
    yield from _repeated(delivery.formats, f"{place}/formats")


def _repeated(formats: Sequence[str], place: str) -> Iterator[FieldFault]:
    for position, name in enumerate(formats):
        if name in formats[:position]:
            yield _fault(f"{place}/{position}", "repeated", f"{name} stands twice")
