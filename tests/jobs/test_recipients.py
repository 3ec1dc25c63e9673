"""Addresses of mail, as those who do not write schedules see them."""

from uuid import UUID

import pytest

from service.jobs.actors import Actor
from service.jobs.recipients import (
    hidden,
    shown_deliveries,
    shown_refused,
    shown_target,
    shown_text,
)
from service.jobs.schedule_documents import (
    DeliveryIn,
    DirectoryDelivery,
    EmailDelivery,
    WebhookDelivery,
)
from service.jobs.scopes import ROLE_SCOPES

VIEWER = Actor(scopes=ROLE_SCOPES["viewer"])
WRITERS = [Actor(scopes=ROLE_SCOPES[role]) for role in ("planner", "finance", "admin")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ada@example.org", "…@example.org"),
        ("o'neil+x=1/2@mail.example.org", "…@mail.example.org"),
        ("550 <ada.l@example.org>: no such user", "550 <…@example.org>: no such user"),
        ("a@b.org: 550 x; c@d.org: 550 y", "…@b.org: 550 x; …@d.org: 550 y"),
        ("é@example.org, answered a server", "…@example.org, answered a server"),
        ("answered 500", "answered 500"),
    ],
)
def test_of_an_address_its_domain_is_left(text: str, shown: str) -> None:
    assert hidden(text) == shown
    assert shown_text(VIEWER, text) == shown
    assert [shown_text(writer, text) for writer in WRITERS] == [text] * 3
    assert shown_text(VIEWER, None) is None


def test_deliveries_of_a_schedule() -> None:
    mail = EmailDelivery(to=["ada@example.org", "bob@example.org"], attach=["csv"])
    others: list[DeliveryIn] = [
        WebhookDelivery(endpoint_id=UUID(int=1)),
        DirectoryDelivery(folder="a"),
    ]
    seen = EmailDelivery(to=["…@example.org"] * 2, attach=["csv"])
    assert shown_deliveries(VIEWER, [mail, *others]) == [seen, *others]
    assert [shown_deliveries(writer, [mail, *others]) for writer in WRITERS] == [
        [mail, *others]
    ] * 3
    assert shown_target(VIEWER, {"kind": "directory"}) == {"kind": "directory"}


def test_refusals_that_look_alike_are_told_together() -> None:
    refused = {"ada@a.org": "550 ada@a.org", "bob@a.org": "551 moved", "c@b.org": "552 full"}
    assert shown_refused(VIEWER, refused) == {
        "…@a.org": "550 …@a.org; 551 moved",
        "…@b.org": "552 full",
    }
    assert shown_refused(WRITERS[0], refused) == refused
