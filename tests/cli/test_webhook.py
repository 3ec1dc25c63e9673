"""`trainard webhook` and `trainard delivery` on both databases."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result

from service.cli import delivery, webhook
from service.db.engine import Database
from service.jobs.audit_checks import check
from service.jobs.courier import Courier
from service.settings import Deliveries
from tests.jobs.audit_trails import events
from tests.jobs.delivery_worlds import World
from tests.jobs.receivers import LOOPBACK, OK, answer, receiving

Run = Callable[..., Result]


@pytest.fixture
def run(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call `trainard webhook …` or `trainard delivery …` on the database of the test."""
    monkeypatch.setenv("TRAINARD_WEBHOOK_EGRESS", LOOPBACK[0])
    monkeypatch.delenv("TRAINARD_SECRETS_KEY", raising=False)

    def call(group: str, *arguments: str) -> Result:
        command = {"webhook": webhook.command, "delivery": delivery.command}[group]
        return CliRunner().invoke(command, [*arguments, "--database-url", database_url])

    return call


def made(run: Run, url: str = "https://hooks.example.org/x") -> tuple[str, str]:
    """A new endpoint: its id and its secret, which stands alone on standard output."""
    done = run("webhook", "create", url, "--name", "chat")
    assert done.exit_code == 0, done.output
    (found,) = json.loads(run("webhook", "list", "--json").stdout)
    assert found["id"] in done.stderr
    return found["id"], done.stdout.strip()


def test_an_endpoint_from_its_making_to_its_end(run: Run, database: Database) -> None:
    endpoint, secret = made(run)
    assert secret.startswith("whsec_")
    listed = run("webhook", "list").stdout
    assert "https://hooks.example.org/x" in listed
    assert "enabled" in listed
    assert secret not in listed
    rotated = run("webhook", "rotate", endpoint, "--overlap-s", "0")
    assert rotated.stdout.strip() not in {"", secret}
    assert json.loads(run("webhook", "show", endpoint).stdout)["old_secrets_end_at"] == []
    assert run("webhook", "disable", endpoint).stdout == (
        "Webhook endpoint chat is disabled: disabled by webhook.\n"
    )
    refused = run("webhook", "test", endpoint)
    assert (refused.exit_code, "is disabled: enable it first" in refused.stderr) == (1, True)
    for _ in range(2):
        # Repeating it is harmless.
        assert run("webhook", "enable", endpoint).stdout == "Webhook endpoint chat is enabled.\n"
    assert run("webhook", "delete", endpoint).stdout == "Webhook endpoint chat is deleted.\n"
    assert run("webhook", "list").stdout == "no endpoints of team 'default'\n"
    assert "there is no webhook endpoint" in run("webhook", "show", endpoint).stderr
    assert {event.principal for event in events(database)} == {"program:webhook"}
    assert [found.findings for found in check(database)] == [[]]


def test_what_cannot_be_is_a_sentence(run: Run) -> None:
    refused = run("webhook", "create", "https://u:hunter2@a.org/", "--name", "x")
    assert refused.exit_code == 1
    assert "user or password is refused" in refused.stderr
    assert "hunter2" not in refused.output
    assert "'x' is no id" in run("webhook", "show", "x").stderr
    assert run("webhook", "list", "--team", "nobody").exit_code == 1


def test_a_test_message_and_its_replay(run: Run, database: Database) -> None:
    with receiving(answer(410), OK) as receiver:
        endpoint, _ = made(run, receiver.url())
        sent = run("webhook", "test", endpoint).stdout.strip()
        courier = Courier(database, Deliveries(egress=LOOPBACK))
        courier.start_due()
        assert courier.wait(10)
        shown = json.loads(run("delivery", "show", sent).stdout)
        assert (shown["state"], shown["last_status"]) == ("dead", 410)
        listed = run("delivery", "list", "--state", "dead").stdout
        assert sent in listed
        assert "answered 410" in listed
        assert "disabled" in run("delivery", "replay", sent).stderr
        run("webhook", "enable", endpoint)
        assert f"({shown['message_id']}) is sent again" in run("delivery", "replay", sent).stdout
        courier.start_due()
        assert courier.wait(10)
    assert json.loads(run("delivery", "show", sent).stdout)["state"] == "delivered"
    assert run("delivery", "list", "--state", "dead").stdout == "no deliveries\n"


def test_deliveries_are_filtered(run: Run, database: Database) -> None:
    world = World(database)
    folder = {"kind": "directory", "folder": "x"}
    mail = {"kind": "email", "to": ["a@example.org"]}
    world.plan(folder, mail, state="failed", reason="x")
    found = json.loads(run("delivery", "list", "--kind", "email", "--json").stdout)
    assert [row["target"]["to"] for row in found] == [["a@example.org"]]
    for arguments, num in (((), 2), (("--schedule", "weekly"), 0), (("--limit", "1"), 1)):
        rows = json.loads(run("delivery", "list", "--json", *arguments).stdout)
        assert len(rows) == num
    assert datetime.fromisoformat(found[0]["created_at"]).tzinfo == UTC
