"""What letters are called, whatever is in the name of their schedule."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from service.jobs.delivery_contents import Told, letter_of
from service.jobs.schedule_documents import EmailDelivery
from tests.jobs.delivery_worlds import DELIVERIES


def test_a_letter_names_the_slot_in_local_time_and_turns_nothing_around() -> None:
    run: Any = SimpleNamespace(local_time="2026-11-30T13:59:00+01:00", zone="Europe/Paris", id="r")
    schedule: Any = SimpleNamespace(name="Nightly \u202e\u05d0", slug="nightly", id="s")
    delivery: Any = SimpleNamespace(
        message_id="m", created_at=datetime(2026, 11, 30, tzinfo=UTC), reason="The run failed."
    )
    target = EmailDelivery(to=["ada@example.org"])
    told = Told(run=run, schedule=schedule, report=None, team="default")
    letter = letter_of(delivery, target, told, DELIVERIES)
    assert letter.subject == "Nightly \u05d0, 30 Nov 2026, 13:59: the run failed"
    assert f"<h1><bdi>{letter.subject}</bdi></h1>" in (letter.html or "")
    assert "Run of 30 Nov 2026, 13:59 (Europe/Paris)" in letter.text
