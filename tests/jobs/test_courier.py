"""The outbox: claims, attempts, retries and the end of patience, with real receivers."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from cryptography.fernet import Fernet
from msgspec import structs
from sqlalchemy import select, update
from standardwebhooks.webhooks import Webhook

from service.db import webhook_endpoints as endpoint_rows
from service.db.engine import Database
from service.db.tables import audit_event, delivery, webhook_endpoint
from service.jobs import deliveries, webhook_endpoints
from service.jobs.courier import Courier
from service.jobs.delivery_attempts import DELAYS_S, LEASE_S, Claim, Sent, pause_s
from service.jobs.duties import Duty
from service.jobs.webhook_documents import EndpointChangeIn
from service.jobs.webhook_secrets import Vault
from service.settings import Deliveries, Settings
from tests.api.access_keys import new_team
from tests.jobs.delivery_worlds import DELIVERIES, NOW, World
from tests.jobs.mailboxes import mail_server
from tests.jobs.receivers import OK, answer, receiving
from tests.reports.loss_reports import realistic

SETTINGS = Settings(deliveries=DELIVERIES)


class Clock:
    """What the courier is told of the time."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def on(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def courier(
    database: Database,
    clock: Clock,
    settings: Deliveries = DELIVERIES,
    sender: Callable[[Claim, datetime], Sent] | None = None,
) -> Courier:
    # In the middle of the jitter there is none.
    return Courier(database, settings, sender=sender, clock=clock, jitter=lambda: 0.5)


def deliver(made: Courier) -> int:
    """Send what is due, and wait for it; how many."""
    started = made.start_due()
    assert made.wait(20)
    return started


def test_a_webhook_that_fails_comes_again_with_the_same_bytes_and_id(database: Database) -> None:
    world, clock = World(database), Clock()
    with receiving(answer(500, body=b"no\0"), answer(503, "Retry-After: 60"), OK) as receiver:
        endpoint = world.endpoint(receiver.url())
        wanted = {"kind": "webhook", "endpoint_id": str(endpoint.id)}
        (row,) = world.plan(wanted, made=world.store(realistic()))
        made = courier(database, clock)
        assert deliver(made) == 1
        row = world.row(row.id)
        assert (row.state, row.attempts, row.last_status) == ("pending", 1, 500)
        assert row.last_error == "answered 500"
        assert row.next_attempt_at == NOW + timedelta(seconds=5)
        assert (row.claimed_by, row.claimed_until) == (None, None)
        clock.on(4)
        assert deliver(made) == 0
        clock.on(1)
        assert deliver(made) == 1
        # Thirty seconds by the table, but it asks for a minute
        assert world.row(row.id).next_attempt_at == clock.now + timedelta(seconds=60)
        clock.on(60)
        assert deliver(made) == 1
    row = world.row(row.id)
    assert (row.state, row.attempts, row.last_status, row.last_error) == ("delivered", 3, 200, None)
    assert (row.ended_at, row.first_attempt_at, row.next_attempt_at) == (clock.now, NOW, None)
    attempts = world.attempts(row.id)
    assert [(part.attempt, part.status, part.answer) for part in attempts] == [
        (1, 500, "no\ufffd"),
        (2, 503, None),
        (3, 200, "ok"),
    ]
    requests = receiver.received
    assert len({request.body for request in requests}) == 1
    assert {request.headers["webhook-id"] for request in requests} == {row.message_id}
    assert [int(request.headers["webhook-timestamp"]) for request in requests] == [
        int(NOW.timestamp()) + offset for offset in (0, 5, 65)
    ]
    links = msgspec.json.decode(requests[0].body)["data"]["links"]
    assert links["report"] == f"https://trainard.example/v1/reports/{row.report_id}"


def test_a_receiver_can_verify_it_with_the_standards_library(database: Database) -> None:
    world = World(database)
    with receiving() as receiver:
        endpoint = world.endpoint(receiver.url())
        with database.write() as connection:
            rotated = webhook_endpoints.rotate_secret(
                connection, world.actor, endpoint.id, SETTINGS, overlap_s=86_400, now=NOW
            )
            # The library goes by the real time.
            now = datetime.now(UTC)
            webhook_endpoints.send_trial(connection, world.actor, endpoint.id, now=now)
        real = Courier(database, DELIVERIES)
        deliver(real)
        (request,) = receiver.received
    for secret in (endpoint.secret, rotated.secret):
        assert secret is not None
    assert rotated.secret is not None
    found = Webhook(rotated.secret).verify(request.body, request.headers)
    assert (found["type"], found["data"]["run"]) == ("webhook.test", None)


def test_both_secrets_sign_during_a_rotation_and_one_afterwards(database: Database) -> None:
    world, clock = World(database), Clock()
    with receiving() as receiver:
        endpoint = world.endpoint(receiver.url())
        for _ in range(2):
            with database.write() as connection:
                webhook_endpoints.rotate_secret(
                    connection, world.actor, endpoint.id, SETTINGS, overlap_s=3_600, now=NOW
                )
        for hours in (0, 1):
            clock.on(hours * 3_600)
            with database.write() as connection:
                webhook_endpoints.send_trial(connection, world.actor, endpoint.id, now=clock.now)
            deliver(courier(database, clock))
        assert [
            request.headers["webhook-signature"].count("v1,") for request in receiver.received
        ] == [3, 1]


def test_pauses_grow_to_a_day_and_heed_retry_after() -> None:
    assert sum(DELAYS_S) / 3_600 == pytest.approx(23.876, abs=0.001)
    assert [pause_s(failed, None, 0.5) for failed in (1, 2, 3, 13, 14)] == [
        5,
        30,
        120,
        14_400,
        None,
    ]
    assert (pause_s(1, None, 0.0), pause_s(1, None, 1.0)) == (4, 6)
    assert pause_s(1, 100.0, 0.5) == 100
    assert pause_s(4, 100.0, 0.5) == 300
    assert pause_s(1, 1e9, 0.5) == 6 * 3_600


def failing(status: int = 500, **fields: Any) -> Callable[[Claim, datetime], Sent]:
    return lambda _claim, _now: Sent(
        is_delivered=False, status=status, error=f"answered {status}", **fields
    )


def until_the_end(made: Courier, clock: Clock, world: World, delivery_id: UUID) -> None:
    while (row := world.row(delivery_id)).state == "pending":
        clock.now = max(clock.now, row.next_attempt_at)
        assert deliver(made) == 1


def test_after_a_day_it_is_given_up_and_a_replay_begins_anew(database: Database) -> None:
    world, clock = World(database), Clock()
    row = world.webhook("https://hooks.example.org/x")
    made = courier(database, clock, sender=failing())
    until_the_end(made, clock, world, row.id)
    dead = world.row(row.id)
    assert (dead.state, dead.attempts, dead.next_attempt_at) == ("dead", 14, None)
    assert clock.now - NOW == timedelta(seconds=sum(DELAYS_S))
    assert deliver(made) == 0
    clock.on(86_400)
    with database.write() as connection:
        replayed = deliveries.replay(connection, world.actor, row.id, now=clock.now)
    assert (replayed.state, replayed.message_id, replayed.attempts) == (
        *("pending", row.message_id),
        14,
    )
    # The same patience once more
    until_the_end(made, clock, world, row.id)
    again = world.row(row.id)
    assert (again.state, again.attempts, again.payload) == ("dead", 28, dead.payload)
    with database.read() as connection:
        shown = deliveries.get(connection, world.actor, row.id)
    assert [attempt.attempt for attempt in shown.attempt_log] == list(range(1, 29))


def test_a_replay_of_what_waits_brings_it_forward_unless_it_is_being_sent(
    database: Database,
) -> None:
    world, clock = World(database), Clock()
    row = world.webhook("https://hooks.example.org/x")
    deliver(courier(database, clock, sender=failing()))
    waits = world.row(row.id).next_attempt_at
    assert waits > clock.now
    with database.write() as connection:
        connection.execute(update(delivery).values(claimed_until=waits))
        held = deliveries.replay(connection, world.actor, row.id, now=clock.now)
        assert held.next_attempt_at == waits
        connection.execute(update(delivery).values(claimed_until=None))
        sooner = deliveries.replay(connection, world.actor, row.id, now=clock.now)
    assert (sooner.state, sooner.attempts, sooner.next_attempt_at) == ("pending", 1, clock.now)
    assert deliver(courier(database, clock, sender=failing())) == 1


def test_no_attempt_begins_more_than_26_hours_after_the_first(database: Database) -> None:
    world, clock = World(database), Clock()
    row = world.webhook("https://hooks.example.org/x")
    made = courier(database, clock, sender=failing(503, retry_after_s=1e6))
    until_the_end(made, clock, world, row.id)
    # Every six hours, as it asks for more
    assert world.row(row.id).attempts == 5
    assert clock.now - NOW == timedelta(hours=24)


def test_gone_disables_the_endpoint_and_cancels_what_waits(database: Database) -> None:
    world, clock = World(database), Clock()
    with receiving(answer(410)) as receiver:
        endpoint = world.endpoint(receiver.url())
        wanted = {"kind": "webhook", "endpoint_id": str(endpoint.id)}
        first, second, third = world.plan(wanted, wanted, wanted, made=world.store(realistic()))
        with database.write() as connection:
            # Due later
            connection.execute(
                update(delivery)
                .where(delivery.c.id.in_([second.id, third.id]))
                .values(next_attempt_at=NOW + timedelta(hours=1))
            )
        deliver(courier(database, clock))
    assert [world.row(part.id).state for part in (first, second, third)] == [
        "dead",
        "canceled",
        "canceled",
    ]
    with database.read() as connection:
        found = endpoint_rows.find_endpoint(connection, endpoint.id)
        assert found is not None
        actions = connection.scalars(select(audit_event.c.action)).all()
        with pytest.raises(Exception, match="is disabled"):
            deliveries._refuse_closed(connection, world.row(second.id))
    assert (found.disabled_at, found.disabled_reason) == (NOW, "it answered 410 Gone")
    assert "disable_webhook_endpoint" in actions


def test_ten_dead_in_a_row_disable_the_endpoint(database: Database) -> None:
    world, clock = World(database), Clock()
    endpoint = world.endpoint("https://hooks.example.org/x")
    wanted = {"kind": "webhook", "endpoint_id": str(endpoint.id)}
    made_report = world.store(realistic())

    def send(*, well: bool) -> None:
        world.plan(wanted, made=made_report, run_id=world.new_run())
        clock.on(1)
        sent = Sent(is_delivered=well, error=None if well else "x", is_permanent=True)
        deliver(courier(database, clock, sender=lambda _claim, _now: sent))

    def is_disabled() -> bool:
        with database.read() as connection:
            found = endpoint_rows.find_endpoint(connection, endpoint.id)
            assert found is not None
            return found.disabled_at is not None

    for _ in range(9):
        send(well=False)
    send(well=True)
    for _ in range(9):
        send(well=False)
    assert not is_disabled()
    send(well=False)
    assert is_disabled()
    # Taken back into use it gets the same patience again.
    clock.on(1)
    with database.write() as connection:
        current = webhook_endpoints.read_endpoint(
            connection, world.actor, endpoint.id, now=clock.now
        )
        assert current.disabled_reason == "10 messages in a row could not be delivered"
        webhook_endpoints.change_endpoint(
            connection,
            world.actor,
            endpoint.id,
            EndpointChangeIn(enabled=True),
            SETTINGS,
            version=current.version,
            now=clock.now,
        )
    send(well=False)
    assert not is_disabled()


def test_what_waits_for_a_disabled_or_deleted_endpoint_is_canceled(database: Database) -> None:
    world, clock = World(database), Clock()
    rows = [world.webhook("https://hooks.example.org/x")]
    rows.append(
        world.plan(rows[0].target, made=world.store(realistic()), run_id=world.new_run())[-1]
    )
    with database.write() as connection:
        # As if the plan had been committed just after the endpoint was disabled.
        connection.execute(update(webhook_endpoint).values(disabled_at=NOW))
    assert deliver(courier(database, clock)) == 0
    assert {world.row(row.id).last_error for row in rows} == {"the endpoint was disabled"}
    assert {world.row(row.id).state for row in rows} == {"canceled"}


def test_a_slow_endpoint_does_not_hold_up_the_others(database: Database) -> None:
    world, clock = World(database), Clock()
    slow, quick = (world.endpoint(f"https://{name}.example.org/") for name in ("slow", "quick"))
    release = threading.Event()
    done: list[UUID] = []
    most: list[int] = []
    in_slow = threading.Semaphore(100)

    def send(claim: Claim, _now: datetime) -> Sent:
        if claim.delivery.endpoint_id == slow.id:
            in_slow.acquire()
            most.append(100 - in_slow._value)
            release.wait(20)
            in_slow.release()
        done.append(claim.delivery.endpoint_id)
        return Sent(is_delivered=True)

    made = world.store(realistic())
    hooks = [{"kind": "webhook", "endpoint_id": str(part.id)} for part in (slow, quick)]
    world.plan(*[hooks[0]] * 20, made=made)
    world.plan(*[hooks[1]] * 5, made=made, run_id=world.new_run())
    sender = courier(database, clock, sender=send)
    duty = Duty("courier", sender.act, every_s=0.05)
    duty.start()
    try:
        deadline = time.monotonic() + 15
        while done.count(quick.id) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert done.count(slow.id) == 0
    finally:
        release.set()
    deadline = time.monotonic() + 30
    while done.count(slow.id) < 20:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    duty.stop()
    assert max(most) == 2
    assert {row.state for row in world.rows()} == {"delivered"}


def test_slow_receivers_of_a_team_hold_up_nobody_else(database: Database) -> None:
    world, clock = World(database), Clock()
    other = World(database, new_team(database, "other"))
    made = world.store(realistic())
    slow = [
        {"kind": "webhook", "endpoint_id": str(world.endpoint(f"https://s{n}.org/").id)}
        for n in range(8)
    ]
    folder = {"kind": "directory", "folder": "x"}
    for _ in range(3):
        world.plan(*slow * 2, made=made, run_id=world.new_run())
    world.plan(*[folder] * 5, made=made, run_id=world.new_run())
    release = threading.Event()
    begun: list[tuple[UUID, str]] = []

    def send(claim: Claim, _now: datetime) -> Sent:
        begun.append((claim.delivery.team_id, claim.delivery.kind))
        if claim.delivery.team_id == world.team_id:
            release.wait(20)
        return Sent(is_delivered=True)

    sender = courier(database, clock, sender=send)
    # A part of the places for webhooks, and one of those for folders
    assert sender.start_due() == 8 + 2
    assert sender.start_due() == 0
    quick = other.endpoint("https://quick.org/")
    # Later than all of them, and yet its turn
    other.plan(
        {"kind": "webhook", "endpoint_id": str(quick.id)}, folder, made=other.store(realistic())
    )
    assert sender.start_due() == 2
    deadline = time.monotonic() + 10
    while {row.state for row in other.rows()} != {"delivered"}:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert sender.start_due() == 0
    release.set()
    assert sender.wait(20)
    assert sorted({kind for team, kind in begun if team == other.team_id}) == [
        "directory",
        "webhook",
    ]
    while deliver(sender):
        pass
    assert {row.state for row in world.rows()} == {"delivered"}


def test_money_is_not_sent_to_an_endpoint_that_takes_none_any_more(database: Database) -> None:
    """Whoever turned it so, and wherever it leads by now."""
    world, clock = World(database), Clock()
    row = world.webhook("https://hooks.example.org/x", include_costs=True)
    deliver(courier(database, clock, sender=failing()))
    assert world.row(row.id).state == "pending"
    with database.write() as connection:
        connection.execute(
            update(webhook_endpoint).values(include_costs=False, url="https://evil.example.org/")
        )
    clock.on(5)
    sent: list[Claim] = []

    def note(claim: Claim, _now: datetime) -> Sent:
        sent.append(claim)
        return Sent(is_delivered=True)

    assert deliver(courier(database, clock, sender=note)) == 0
    found = world.row(row.id)
    assert (found.state, found.last_error) == (
        "canceled",
        "the endpoint takes no money any more",
    )
    with database.write() as connection, pytest.raises(Exception, match="takes no money"):
        deliveries.replay(connection, world.actor, row.id, now=clock.now)
    assert sent == []


def test_plain_secrets_are_encrypted_as_soon_as_there_is_a_key(database: Database) -> None:
    world, clock = World(database), Clock()
    key = Fernet.generate_key().decode()
    encrypted = structs.replace(DELIVERIES, secrets_key=key)

    def stored() -> list[list[dict[str, Any]]]:
        with database.read() as connection:
            return [row.secrets for row in endpoint_rows.list_secrets(connection)]

    first = world.endpoint("https://hooks.example.org/x")
    with database.write() as connection:
        webhook_endpoints.rotate_secret(
            connection, world.actor, first.id, SETTINGS, overlap_s=3_600, now=NOW
        )
    world.endpoint("https://hooks.example.org/y")
    before = stored()
    plain = [entry["secret"] for secrets in before for entry in secrets]
    assert all(secret.startswith("whsec_") for secret in plain)
    duty = Duty("courier", lambda _duty: False, every_s=1)
    duty.stop()
    courier(database, clock).act(duty)
    assert stored() == before
    for _ in range(2):
        courier(database, clock, encrypted).act(duty)
    after = stored()
    assert not any(secret in repr(after) for secret in plain)
    shown = [Vault(key).shown(entry["secret"]) for secrets in after for entry in secrets]
    assert shown == plain
    assert [[entry["expires_at"] for entry in secrets] for secrets in after] == [
        [entry["expires_at"] for entry in secrets] for secrets in before
    ]
    with database.read() as connection:
        actions = connection.scalars(select(audit_event.c.action)).all()
    assert actions.count("encrypt_webhook_secrets") == 2


def test_several_couriers_send_each_delivery_once(database: Database) -> None:
    world, clock = World(database), Clock()
    made = world.store(realistic())
    hooks = [
        {"kind": "webhook", "endpoint_id": str(world.endpoint(f"https://h{n}.example.org/").id)}
        for n in range(10)
    ]
    world.plan(*hooks * 2, made=made)
    seen: list[UUID] = []
    lock = threading.Lock()

    def send(claim: Claim, _now: datetime) -> Sent:
        with lock:
            seen.append(claim.delivery.id)
        return Sent(is_delivered=True)

    couriers = [courier(database, clock, sender=send) for _ in range(3)]
    duties = [Duty(f"courier-{n}", made.act, every_s=0.02) for n, made in enumerate(couriers)]
    for duty in duties:
        duty.start()
    deadline = time.monotonic() + 30
    while any(row.state == "pending" for row in world.rows()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for duty in duties:
        duty.stop()
    assert len(seen) == len(set(seen)) == 20


class Killed(Courier):
    """Posts, and is gone before it has written that down."""

    def _record(self, claim: Claim, sent: Sent, started_at: datetime) -> None:
        assert sent.is_delivered, (claim, started_at)


def test_a_claim_of_a_killed_process_runs_out_and_it_is_sent_again(database: Database) -> None:
    world, clock = World(database), Clock()
    with receiving() as receiver:
        row = world.webhook(receiver.url())
        first = Killed(database, DELIVERIES, clock=clock)
        assert deliver(first) == 1
        second = courier(database, clock)
        clock.on(LEASE_S - 1)
        assert deliver(second) == 0
        clock.on(1)
        assert deliver(second) == 1
    assert [request.headers["webhook-id"] for request in receiver.received] == [row.message_id] * 2
    assert receiver.received[0].body == receiver.received[1].body
    assert (world.row(row.id).state, world.row(row.id).attempts) == ("delivered", 1)


def test_a_late_outcome_of_a_lost_lease_ends_nothing_but_success(database: Database) -> None:
    world, clock = World(database), Clock()
    row = world.webhook("https://hooks.example.org/x")
    going = threading.Event()
    outcome = Sent(is_delivered=False, error="late", is_permanent=True)

    def late(_claim: Claim, _now: datetime) -> Sent:
        going.wait(20)
        return outcome

    first = courier(database, clock, sender=late)
    first.start_due()
    clock.on(LEASE_S)
    held = threading.Event()

    def holds(_claim: Claim, _now: datetime) -> Sent:
        held.wait(20)
        return Sent(is_delivered=True, status=200)

    second = courier(database, clock, sender=holds)
    assert second.start_due() == 1
    going.set()
    assert first.wait(10)
    # Logged, but it is the second one's by now.
    assert (world.row(row.id).state, world.row(row.id).attempts) == ("pending", 1)
    held.set()
    assert second.wait(10)
    assert (world.row(row.id).state, world.row(row.id).attempts) == ("delivered", 2)


def test_what_is_canceled_on_its_way_stays_canceled(database: Database) -> None:
    world, clock = World(database), Clock()
    row = world.webhook("https://hooks.example.org/x")
    going = threading.Event()

    def slow(_claim: Claim, _now: datetime) -> Sent:
        going.wait(20)
        return Sent(is_delivered=True, status=200)

    made = courier(database, clock, sender=slow)
    made.start_due()
    with database.write() as connection:
        canceled = deliveries.cancel(connection, world.actor, row.id, now=clock.now)
        assert canceled.state == "canceled"
        assert deliveries.cancel(connection, world.actor, row.id, now=clock.now) == canceled
        # Though its place is held still, it can be sent again, and called off once more.
        replayed = deliveries.replay(connection, world.actor, row.id, now=clock.now)
        assert replayed.state == "pending"
        deliveries.cancel(connection, world.actor, row.id, now=clock.now)
    going.set()
    assert made.wait(10)
    assert (world.row(row.id).state, world.row(row.id).last_status) == ("canceled", 200)


def test_what_is_in_hand_is_not_begun_beside_itself(database: Database) -> None:
    world, clock = World(database), Clock()
    row = world.webhook("https://hooks.example.org/x")
    going, num = threading.Event(), 0

    def slow(_claim: Claim, _now: datetime) -> Sent:
        nonlocal num
        num += 1
        going.wait(20)
        return Sent(is_delivered=False, error="no")

    made = courier(database, clock, sender=slow)
    assert made.start_due() == 1
    # Its lease has run out, as when the database was away for long.
    clock.on(LEASE_S)
    assert made.start_due() == 0
    # It is called off and asked for again.
    with database.write() as connection:
        deliveries.cancel(connection, world.actor, row.id, now=clock.now)
        deliveries.replay(connection, world.actor, row.id, now=clock.now)
    assert made.start_due() == 0
    going.set()
    assert made.wait(10)
    assert deliver(made) == 1
    assert num == 2
    assert [part.attempt for part in world.attempts(row.id)] == [1, 2]


def test_long_sending_keeps_its_lease(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    world, clock = World(database), Clock()
    row = world.webhook("https://hooks.example.org/x")
    monkeypatch.setattr("service.jobs.courier.RENEW_EVERY_S", 0.0)
    going = threading.Event()

    def slow(_claim: Claim, _now: datetime) -> Sent:
        going.wait(20)
        return Sent(is_delivered=True)

    made = courier(database, clock, sender=slow)
    made.start_due()
    clock.on(LEASE_S - 1)
    made._renew()
    clock.on(LEASE_S - 1)
    assert courier(database, clock).start_due() == 0
    going.set()
    assert made.wait(10)
    assert world.row(row.id).state == "delivered"


def test_it_stops_soon_though_something_is_on_its_way(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(sqlite_database)
    world.webhook("https://hooks.example.org/x")
    monkeypatch.setattr("service.jobs.courier.GRACE_S", 0.2)
    going, begun = threading.Event(), threading.Event()

    def slow(_claim: Claim, _now: datetime) -> Sent:
        begun.set()
        going.wait(20)
        return Sent(is_delivered=True)

    made = courier(sqlite_database, Clock(), sender=slow)
    duty = made.duty()
    duty.start()
    assert begun.wait(10)
    before = time.monotonic()
    duty.stop()
    assert time.monotonic() - before < 2
    going.set()
    assert made.wait(10)


def test_a_sender_that_breaks_leaves_the_delivery_to_the_next(database: Database) -> None:
    """What cannot be made is tried again, and said in the log only."""
    world, clock = World(database), Clock()
    row = world.webhook("https://hooks.example.org/x")
    with database.write() as connection:
        connection.execute(update(delivery).values(target={"kind": "no such"}))
    deliver(courier(database, clock))
    found = world.row(row.id)
    assert (found.state, found.last_error) == (
        "pending",
        "an unexpected error; it is in the service's log",
    )


def test_mail_goes_to_those_who_have_it_not(database: Database) -> None:
    world, clock = World(database), Clock()
    with mail_server() as box:
        settings = structs.replace(
            DELIVERIES,
            smtp_url=box.url,
            email_from="Trainard <trainard@example.org>",
            email_domains=("example.org",),
        )
        box.replies = {
            "bob@example.org": ["451 later"],
            "gone@example.org": ["550 no such user"],
        }
        people = ["ada@example.org", "bob@example.org", "gone@example.org", "x@elsewhere.org"]
        mail = {"kind": "email", "to": people, "attach": ["html", "csv"], "language": "fr"}
        (row,) = world.plan(mail, made=world.store(realistic()))
        made = courier(database, clock, settings)
        deliver(made)
        found = world.row(row.id)
        assert (found.state, found.attempts) == ("pending", 1)
        assert found.outcome["accepted"] == ["ada@example.org"]
        assert sorted(found.outcome["refused"]) == ["gone@example.org", "x@elsewhere.org"]
        clock.on(5)
        deliver(made)
    found = world.row(row.id)
    assert found.state == "delivered"
    assert found.outcome["accepted"] == ["ada@example.org", "bob@example.org"]
    assert box.envelopes == [["ada@example.org"], ["bob@example.org"]]
    message = box.messages[0]
    assert [part["Message-ID"] for part in box.messages] == [f"<{row.message_id}@example.org>"] * 2
    narrow, nbsp = "\N{NARROW NO-BREAK SPACE}", "\N{NO-BREAK SPACE}"
    assert message["Subject"] == (
        f"Nightly, Paris, 28 mars 2027, 03:00{nbsp}: budget dépassé, 625{narrow}297 heures GPU "
        "perdues en 30 jours"
    )
    stem = f"nightly-2027-03-28-0300-{world.run_id.hex[-12:]}"
    files = {
        part.get_filename(): part.get_payload(decode=True) for part in message.iter_attachments()
    }
    assert list(files) == [f"{stem}.html", f"{stem}.csv"]
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    assert plain is not None
    assert html is not None
    said = plain.get_content()
    # To pages, where people can sign in: they have no key for the API.
    assert f"Le rapport{nbsp}: https://trainard.example/reports/{row.report_id}\r\n" in said
    assert f"https://trainard.example/schedules/{world.schedule_id}\r\n" in said
    assert f'href="https://trainard.example/reports/{row.report_id}"' in html.get_content()
    assert "Budget dépassé" in said
    assert 'lang="fr"' in html.get_content()
    # Without include_costs no amount is in any part of it.
    amount = realistic().headline.cost_of_loss_per_30_days
    assert amount is not None
    whole = said + html.get_content() + "".join(str(part) for part in files.values())
    assert amount.amount not in whole.replace(",", "").replace("\\xe2\\x80\\xaf", "")


def test_mail_that_all_refuse_for_ever_is_dead_at_once(database: Database) -> None:
    world, clock = World(database), Clock()
    with mail_server() as box:
        settings = structs.replace(DELIVERIES, smtp_url=box.url, email_from="t@example.org")
        box.replies = {"a@example.org": ["550 no"]}
        (row,) = world.plan(
            {"kind": "email", "to": ["a@example.org"]}, state="failed", reason="no rate"
        )
        deliver(courier(database, clock, settings))
        found = world.row(row.id)
        assert (found.state, found.last_error) == ("dead", "a@example.org: 550 no")
        # A replay asks all of them again.
        with database.write() as connection:
            deliveries.replay(connection, world.actor, row.id, now=clock.now)
        deliver(courier(database, clock, settings))
        assert world.row(row.id).state == "delivered"
    (message,) = box.messages
    assert message["Subject"] == "Nightly, Paris, 28 Mar 2027, 03:00: the run failed"
    body = message.get_body(("plain",))
    assert body is not None
    assert "The run failed: no rate" in body.get_content()


def test_what_does_not_fit_into_a_mail_is_a_link(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(sqlite_database)
    monkeypatch.setattr("service.jobs.delivery_contents.MAX_ATTACHED_BYTES", 20_000)
    with mail_server() as box:
        settings = structs.replace(DELIVERIES, smtp_url=box.url, email_from="t@example.org")
        mail = {"kind": "email", "to": ["a@example.org"], "attach": ["html", "csv"]}
        world.plan(mail, made=world.store(realistic()))
        deliver(courier(sqlite_database, Clock(), settings))
    (message,) = box.messages
    assert [part.get_filename() for part in message.iter_attachments()] == [
        f"nightly-2027-03-28-0300-{world.run_id.hex[-12:]}.csv"
    ]
    body = message.get_body(("plain",))
    assert body is not None
    assert ".html." in body.get_content()
    assert "Not attached" in body.get_content()


def test_what_the_mail_server_does_not_take_is_a_link(sqlite_database: Database) -> None:
    world = World(sqlite_database)
    stem = f"nightly-2027-03-28-0300-{world.run_id.hex[-12:]}"
    with mail_server(max_bytes=20_000) as box:
        settings = structs.replace(DELIVERIES, smtp_url=box.url, email_from="t@example.org")
        mail = {"kind": "email", "to": ["a@example.org"], "attach": ["html", "csv"]}
        (row,) = world.plan({**mail, "language": "fr"}, made=world.store(realistic()))
        deliver(courier(sqlite_database, Clock(), settings))
    assert (world.row(row.id).state, world.row(row.id).attempts) == ("delivered", 1)
    (message,) = box.messages
    assert list(message.iter_attachments()) == []
    body = message.get_body(("plain",))
    assert body is not None
    named = f"Non joint, car le serveur de messagerie refuse un message si gros\xa0: {stem}.html, "
    assert f"{named}{stem}.csv." in body.get_content().replace("\n", " ")
    assert f"https://trainard.example/reports/{row.report_id}" in body.get_content()


def test_files_are_dropped_and_removed_in_time(database: Database, tmp_path: Path) -> None:
    world, clock = World(database), Clock()
    settings = structs.replace(DELIVERIES, folder=str(tmp_path))
    wanted = {
        "kind": "directory",
        "folder": "finance/nightly",
        "formats": ["html", "json", "parquet", "focus"],
        "keep_days": 30,
        "include_costs": True,
    }
    (row,) = world.plan(wanted, made=world.store(realistic()))
    deliver(courier(database, clock, settings))
    found = world.row(row.id)
    assert (found.state, found.files_expire_at) == ("delivered", NOW + timedelta(days=30))
    stem = f"nightly-2027-03-28-0300-{world.run_id.hex[-12:]}"
    folder = tmp_path / "default" / "finance" / "nightly"
    endings = ["forecast.focus.csv", "html", "json", "parquet", "sidecar.json"]
    assert sorted(path.name for path in folder.iterdir()) == [f"{stem}.{end}" for end in endings]
    sidecar = msgspec.json.decode((folder / f"{stem}.sidecar.json").read_bytes())
    assert (sidecar["message_id"], sidecar["includes_costs"]) == (row.message_id, True)
    assert (sidecar["team"], sidecar["schedule"]) == ("default", "nightly")
    assert sidecar["scheduled_for"] == "2027-03-28T01:00:00Z"
    kept = {file["name"]: file for file in found.outcome["files"]}
    for file in sidecar["files"]:
        assert kept[file["name"]]["sha256"] == file["sha256"]
        assert (folder / file["name"]).stat().st_size == file["bytes"]
    document = msgspec.json.decode((folder / f"{stem}.json").read_bytes())
    amount = realistic().headline.cost_of_loss_per_30_days
    assert document["headline"]["cost_of_loss_per_30_days"] == msgspec.to_builtins(amount)
    with database.write() as connection:
        deliveries.replay(connection, world.actor, row.id, now=NOW)
    deliver(courier(database, clock, settings))
    assert len(list(folder.iterdir())) == 5


def test_a_folder_that_is_away_is_tried_again(database: Database, tmp_path: Path) -> None:
    world, clock = World(database), Clock()
    settings = structs.replace(DELIVERIES, folder=str(tmp_path / "mounted-later"))
    (row,) = world.plan({"kind": "directory", "folder": "x"}, state="failed", reason="no rate")
    deliver(courier(database, clock, settings))
    assert world.row(row.id).last_error.endswith("mounted-later is not there")
    (tmp_path / "mounted-later").mkdir()
    clock.on(5)
    deliver(courier(database, clock, settings))
    assert world.row(row.id).state == "delivered"
    (path,) = (tmp_path / "mounted-later" / "default" / "x").iterdir()
    assert msgspec.json.decode(path.read_bytes())["reason"] == "The run failed: no rate"


def test_what_is_not_set_up_any_more_or_deleted_is_said(database: Database) -> None:
    world, clock = World(database), Clock()
    made = world.store(realistic())
    mail, folder = world.plan(
        {"kind": "email", "to": ["a@example.org"]}, {"kind": "directory", "folder": "x"}, made=made
    )
    deliver(courier(database, clock))
    assert [world.row(part.id).last_error for part in (mail, folder)] == [
        "TRAINARD_SMTP_URL is not set any more",
        "TRAINARD_DELIVERY_FOLDER is not set any more",
    ]
    (gone,) = world.plan(
        {"kind": "directory", "folder": "x"}, made=realistic(), run_id=world.new_run()
    )[2:]
    deliver(courier(database, clock, structs.replace(DELIVERIES, folder="/tmp")))  # noqa: S108
    found = world.row(gone.id)
    assert (found.state, found.last_error) == ("dead", "the report is not there any more")
