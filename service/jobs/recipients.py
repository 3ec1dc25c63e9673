"""Who gets mail: addresses are of people, and shown to those only who say where reports go."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from service.jobs.actors import Actor
from service.jobs.schedule_documents import DeliveryIn, EmailDelivery

# Who may write a schedule reads all of it.
SCOPE: Final = "schedules:write"
# What may stand before the @ of an address (RFC 5321), also in what a mail server answers
_LOCAL_PART: Final = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+@")


def sees_recipients(actor: Actor) -> bool:
    """Whether the actor reads addresses as they are."""
    return actor.may(SCOPE)


def hidden(text: str) -> str:
    """The text with `…@example.org` for each address: the domain says enough of where it goes."""
    return _LOCAL_PART.sub("\N{HORIZONTAL ELLIPSIS}@", text)


def shown_deliveries(actor: Actor, deliveries: Sequence[DeliveryIn]) -> list[DeliveryIn]:
    """What a schedule says of its deliveries, as the actor may see it."""
    if sees_recipients(actor):
        return list(deliveries)
    return [
        structs.replace(one, to=[*map(hidden, one.to)]) if isinstance(one, EmailDelivery) else one
        for one in deliveries
    ]


def shown_target(actor: Actor, target: dict[str, Any]) -> dict[str, Any]:
    """The same of one delivery as it is stored."""
    if "to" not in target or sees_recipients(actor):
        return target
    return {**target, "to": [*map(hidden, target["to"])]}


def shown_text(actor: Actor, text: str | None) -> str | None:
    """What a mail server or we have said of recipients."""
    return text if text is None or sees_recipients(actor) else hidden(text)


def shown_reached(actor: Actor, reached: Sequence[str]) -> list[str]:
    """Who has the message."""
    return list(reached) if sees_recipients(actor) else [*map(hidden, reached)]


def shown_refused(actor: Actor, refused: Mapping[str, str]) -> dict[str, str]:
    """Who has it not, with the reason; those of one domain together where they look alike."""
    if sees_recipients(actor):
        return dict(refused)
    found: dict[str, list[str]] = {}
    for address, reason in refused.items():
        found.setdefault(hidden(address), []).append(hidden(reason))
    return {address: "; ".join(reasons) for address, reasons in found.items()}
