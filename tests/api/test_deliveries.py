"""The log of deliveries over HTTP, on both databases."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import structlog
from litestar import Litestar
from litestar.testing import TestClient
from msgspec import structs
from sqlalchemy import select, update

from service.db import deliveries as rows
from service.db.engine import Database
from service.db.tables import audit_event, delivery, schedule
from service.jobs import deliveries
from service.jobs.drop_expiry import list_expired
from service.jobs.scopes import ROLE_SCOPES
from service.settings import Settings
from tests.api.access_keys import key_of, new_team
from tests.api.conftest import BASE_URL
from tests.api.reused_apps import app_over
from tests.jobs.audit_trails import events
from tests.jobs.delivery_worlds import NOW, World
from tests.reports.loss_reports import realistic

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
PATH = "/v1/deliveries"
FOLDER = {"kind": "directory", "folder": "nightly"}
SCHEDULE = {"batch": {"items": [{"custom_id": "a", "scenario": {}}]}}
MAIL = {"kind": "email", "to": ["ada@example.org"], "include_costs": True}


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


@pytest.fixture
def client(database: Database, world: World) -> Iterator[Client]:
    # The world's deliveries are due in 2027, so that nothing sends them meanwhile.
    assert world.team_id
    with app_over(Settings(), database) as app, TestClient(app, base_url=BASE_URL) as opened:
        opened.headers.update(key_of(database, "admin"))
        yield opened


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_the_log_is_filtered_and_paged_newest_first(client: Client, world: World) -> None:
    endpoint = world.endpoint("https://hooks.example.org/")
    hook = {"kind": "webhook", "endpoint_id": str(endpoint.id), "when": "on_change"}
    made = world.store(structs.replace(realistic(), budget=None, warnings=[]))
    first = world.plan(FOLDER, MAIL, made=made)
    second = world.plan(hook, made=made, run_id=(run := world.new_run()))[-1]
    with world.database.write() as connection:
        connection.execute(
            update(delivery).where(delivery.c.id == second.id).values(state="dead", created_at=NOW)
        )
    newest = sorted([str(row.id) for row in [*first, second]], reverse=True)
    assert ids(client.get(PATH)) == newest
    for params, expected in (
        ({"kind": "email"}, [str(first[1].id)]),
        ({"state": "dead"}, [str(second.id)]),
        ({"run": str(run)}, [str(second.id)]),
        ({"endpoint": str(endpoint.id)}, [str(second.id)]),
        ({"schedule": "nightly"}, newest),
        ({"schedule": str(world.schedule_id)}, newest),
        ({"schedule": "weekly"}, []),
        ({"created_after": "2027-03-28T01:31:00Z"}, []),
        ({"created_before": "2027-03-28T03:31:01+02:00"}, newest),
    ):
        assert ids(client.get(PATH, params=params)) == expected, params
    pages = []
    token = None
    while True:
        params = {"page_size": "1", **({} if token is None else {"page_token": token})}
        page = client.get(PATH, params=params)
        pages += ids(page)
        token = page.json()["next_page_token"]
        if token is None:
            break
    assert pages == newest
    assert client.get(PATH, params={"state": "lost"}).status_code == 400


def test_money_in_a_delivery_is_withheld_and_its_reading_recorded(
    client: Client, world: World
) -> None:
    endpoint = world.endpoint("https://hooks.example.org/", include_costs=True)
    hook = {"kind": "webhook", "endpoint_id": str(endpoint.id), "include_costs": True}
    row, plain = world.plan(hook, FOLDER, made=world.store(realistic()))
    path = f"{PATH}/{row.id}"
    amount = realistic().headline.cost_of_loss_per_30_days
    assert amount is not None
    planner = key_of(world.database, "planner")
    for address in (path, PATH, f"/v1/webhook-endpoints/{endpoint.id}/deliveries"):
        hidden = client.get(address, headers=planner)
        assert hidden.status_code == 200
        assert amount.amount not in hidden.text
    shown = client.get(path, headers=planner).json()
    assert (shown["reason"], shown["payload"], shown["includes_costs"]) == (None, None, True)
    assert client.get(f"{PATH}/{plain.id}", headers=planner).json()["reason"] is not None

    def readings() -> list[str]:
        return [event.action for event in events(world.database) if event.outcome == "read"]

    assert readings() == []
    seen = client.get(path).json()
    assert seen["payload"]["data"]["report"]["cost_of_loss_per_30_days"]["amount"] == amount.amount
    assert seen["reason"] == seen["payload"]["data"]["reason"]
    assert readings() == ["get_delivery"]
    client.get(PATH, params={"kind": "directory"})
    client.get(f"{PATH}/{plain.id}")
    assert readings() == ["get_delivery"]


def test_whether_it_was_sent_is_withheld_where_that_tells_of_money(
    client: Client, world: World, problem_of: ProblemOf
) -> None:
    """Over a budget of money it is sent whatever `when` says, within it only by its rule."""
    rule = {"when": "on_change", "threshold": {"relative": 0.5}}
    told, always = {**MAIL, **rule}, {**MAIL}
    over = structs.replace(realistic(), warnings=[])
    within = structs.replace(over, budget=None)
    sent, skipped, plain, open_rule = (
        *world.plan(told, made=world.store(over)),
        *(world.plan(told, made=world.store(within), run_id=world.new_run())[-1:]),
        *(world.plan(always, made=world.store(over), run_id=world.new_run())[-1:]),
        *(world.plan({**FOLDER, **rule}, made=world.store(within), run_id=world.new_run())[-1:]),
    )
    assert (sent.state, skipped.state) == ("pending", "skipped")
    with world.database.write() as connection:
        connection.execute(
            update(delivery)
            .where(delivery.c.id == sent.id)
            .values(state="dead", attempts=3, last_status=550, last_error="no", version=4)
        )
        rows.add_attempt(
            connection,
            team_id=sent.team_id,
            delivery_id=sent.id,
            attempt=1,
            created_at=NOW,
            duration_ms=1,
        )
    planner = key_of(world.database, "planner")
    first, second = (
        client.get(f"{PATH}/{row.id}", headers=planner).json() for row in (sent, skipped)
    )
    own = ("id", "message_id", "run_id", "report_id", "created_at")
    assert {k: v for k, v in first.items() if k not in own} == {
        k: v for k, v in second.items() if k not in own
    }
    assert (first["state"], first["attempts"], first["attempt_log"]) == ("withheld", None, [])
    assert client.get(f"{PATH}/{sent.id}", headers=planner).headers["etag"] == '"1"'
    shown = {item["id"]: item for item in client.get(PATH, headers=planner).json()["items"]}
    assert shown[str(sent.id)]["state"] == shown[str(skipped.id)]["state"] == "withheld"
    assert shown[str(plain.id)]["state"] == "pending"
    assert shown[str(open_rule.id)]["state"] == "skipped"
    for state, seen, all_of_it in (
        ("dead", [], [sent]),
        ("skipped", [open_rule], [skipped, open_rule]),
        ("pending", [plain], [plain]),
    ):
        found = client.get(PATH, params={"state": state}, headers=planner)
        assert ids(found) == [str(row.id) for row in seen]
        expected = {str(row.id) for row in all_of_it}
        assert set(ids(client.get(PATH, params={"state": state}))) == expected
    assert client.get(PATH, params={"state": "withheld"}).status_code == 400
    for row in (sent, skipped):
        for what in ("cancellation", "replay"):
            answer = client.post(f"{PATH}/{row.id}/{what}", headers=planner)
            problem_of(answer, "missing-scope")
    assert client.get(f"{PATH}/{sent.id}").json()["attempts"] == 3


def test_digests_and_lengths_of_files_with_money_are_withheld(client: Client, world: World) -> None:
    money, plain = world.plan(
        {**FOLDER, "include_costs": True}, FOLDER, made=world.store(realistic())
    )
    files = [{"name": "a.csv", "bytes": 5, "sha256": "00"}]
    with world.database.write() as connection:
        connection.execute(
            update(delivery).values(
                state="delivered", outcome={"team": "default", "folder": "x", "files": files}
            )
        )
    planner = key_of(world.database, "planner")
    hidden = [{"name": "a.csv", "bytes": None, "sha256": None}]
    assert client.get(f"{PATH}/{money.id}", headers=planner).json()["files"] == hidden
    assert client.get(f"{PATH}/{plain.id}", headers=planner).json()["files"] == files
    assert client.get(f"{PATH}/{money.id}").json()["files"] == files
    with world.database.write() as connection:
        connection.execute(update(delivery).values(files_expire_at=NOW))
        listed = {one.delivery_id: one.num_bytes for one in list_expired(connection, NOW)}
    assert listed == {money.id: None, plain.id: 5}


def test_answers_of_receivers_are_for_those_who_set_them_up(client: Client, world: World) -> None:
    endpoint = world.endpoint("https://hooks.example.org/", include_costs=True)
    hook = {"kind": "webhook", "endpoint_id": str(endpoint.id)}
    money, plain = world.plan({**hook, "include_costs": True}, hook, made=world.store(realistic()))
    with world.database.write() as connection:
        for row in (money, plain):
            rows.add_attempt(
                connection,
                team_id=row.team_id,
                delivery_id=row.id,
                attempt=1,
                created_at=NOW,
                duration_ms=1,
                # A receiver that answers with what it was sent
                answer="374898.08 EUR",
            )

    def answers(headers: dict[str, str] | None = None) -> list[str | None]:
        found = (client.get(f"{PATH}/{row.id}", headers=headers) for row in (money, plain))
        return [one.json()["attempt_log"][0]["answer"] for one in found]

    assert answers() == ["374898.08 EUR"] * 2
    assert answers(key_of(world.database, "planner")) == [None, "374898.08 EUR"]
    assert answers(key_of(world.database, "viewer")) == [None, None]


def test_recipients_are_for_those_who_write_schedules(client: Client, world: World) -> None:
    mail = {"kind": "email", "to": ["ada@example.org", "bob@example.org"]}
    (row,) = world.plan(mail, made=world.store(realistic()))
    error = "bob@example.org: 550 no bob@example.org here"
    with world.database.write() as connection:
        rows.add_attempt(
            connection,
            team_id=row.team_id,
            delivery_id=row.id,
            attempt=1,
            created_at=NOW,
            duration_ms=1,
            error=error,
        )
        connection.execute(
            update(delivery).values(
                last_error=error,
                outcome={"accepted": mail["to"][:1], "refused": {mail["to"][1]: "550 no"}},
            )
        )
        connection.execute(update(schedule).values(definition=SCHEDULE | {"deliveries": [mail]}))

    def texts(headers: dict[str, str] | None = None) -> list[str]:
        paths = (PATH, f"{PATH}/{row.id}", "/v1/schedules", "/v1/schedules/nightly")
        answers = [client.get(path, headers=headers) for path in paths]
        assert [one.status_code for one in answers] == [200] * 4
        return [one.text for one in answers]

    viewer = key_of(world.database, "viewer")
    for shown in texts(viewer):
        assert "ada@" not in shown
        assert "bob@" not in shown
        assert "\N{HORIZONTAL ELLIPSIS}@example.org" in shown
    for shown in texts(key_of(world.database, "planner")):
        assert "bob@example.org" in shown
    found = client.get(f"{PATH}/{row.id}", headers=viewer).json()
    assert found["recipients_reached"] == ["…@example.org"]
    assert found["recipients_refused"] == {"…@example.org": "550 no"}
    assert found["attempt_log"][0]["error"] == "…@example.org: 550 no …@example.org here"


def test_the_trail_holds_no_digest_of_money(world: World) -> None:
    """Equal digests for other amounts, reasons and states: trying them out finds nothing."""
    rule = {"when": "on_change", "threshold": {"relative": 0.5}}
    (row,) = world.plan({**MAIL, **rule}, made=world.store(realistic()))
    with world.database.write() as connection:
        deliveries.replay(connection, world.actor, row.id, now=NOW)
        connection.execute(update(delivery).values(reason="other", state="skipped", attempts=7))
        deliveries.replay(connection, world.actor, row.id, now=NOW)
    with world.database.read() as connection:
        digests = connection.execute(
            select(audit_event.c.before_digest, audit_event.c.after_digest).where(
                audit_event.c.action == "replay_delivery"
            )
        ).all()
    assert len(digests) == 2
    assert len({part for pair in digests for part in pair}) == 1


def test_what_is_sent_again_or_called_off(
    client: Client, world: World, problem_of: ProblemOf
) -> None:
    mail, folder = world.plan(MAIL, FOLDER, made=world.store(realistic()))
    path = f"{PATH}/{folder.id}"
    assert client.post(f"{path}/replay").status_code == 202
    canceled = client.post(f"{path}/cancellation")
    assert (canceled.status_code, canceled.json()["state"]) == (200, "canceled")
    # What was on its way is logged, and changes nothing.
    assert client.post(f"{path}/cancellation").json()["state"] == "canceled"
    with world.database.write() as connection:
        ended = {"state": "dead", "next_attempt_at": None}
        connection.execute(update(delivery).values(**ended))
    problem = problem_of(client.post(f"{path}/cancellation"), "conflict")
    assert problem["detail"] == "it is dead: nothing of it waits"
    # Of what holds money only by those who may see it
    planner = key_of(world.database, "planner")
    problem_of(client.post(f"{PATH}/{mail.id}/replay", headers=planner), "missing-scope")
    replayed = client.post(f"{path}/replay", headers=planner)
    assert (replayed.status_code, replayed.json()["state"]) == (202, "pending")
    assert replayed.json()["message_id"] == folder.message_id
    assert replayed.headers["location"] == path


def test_deliveries_of_another_team_are_not_there(
    client: Client, world: World, problem_of: ProblemOf
) -> None:
    (row,) = world.plan(FOLDER, made=world.store(realistic()))
    other = key_of(world.database, "admin", new_team(world.database, "other"))
    assert ids(client.get(PATH, headers=other)) == []
    for suffix, method in (("", "GET"), ("/replay", "POST"), ("/cancellation", "POST")):
        answer = client.request(method, f"{PATH}/{row.id}{suffix}", headers=other)
        problem_of(answer, "not-found")
    problem_of(client.get(f"{PATH}/nonsense"), "not-found")


def test_no_scope_but_schedules_read_is_needed_to_read(client: Client, world: World) -> None:
    (row,) = world.plan(FOLDER, made=world.store(realistic()))
    only = key_of(world.database, "viewer", scopes=["schedules:read"])
    assert client.get(f"{PATH}/{row.id}", headers=only).status_code == 200
    without = key_of(world.database, "viewer", scopes=ROLE_SCOPES["viewer"] - {"schedules:read"})
    assert client.get(f"{PATH}/{row.id}", headers=without).status_code == 403
