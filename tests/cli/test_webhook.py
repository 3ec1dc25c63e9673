"""`trainard webhook` and `trainard delivery` on a real service, with a key of a role."""

import json
import time
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import pytest

from service.cli.child_service import running_service
from service.db.engine import Database
from tests.api.access_keys import key_of
from tests.cli.conftest import SHOWN, Program
from tests.jobs.receivers import LOOPBACK, OK, answer, receiving

Run = Callable[..., CompletedProcess[str]]
HOOK = "https://hooks.example.org/x"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and database of one service for all tests of this file."""
    folder = tmp_path_factory.mktemp("service")
    url = f"sqlite:///{folder / 'trainard.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINARD_WEBHOOK_EGRESS", LOOPBACK[0])
        patch.delenv("TRAINARD_SECRETS_KEY", raising=False)
        with running_service(url, port=0, log=folder / "service.log") as address:
            yield address, url


@pytest.fixture
def run(trainard: Program, service: tuple[str, str]) -> Run:
    """Call `trainard webhook …` or `trainard delivery …` on it."""
    return lambda *arguments: trainard(*arguments, "--url", service[0])


def made(run: Run, url: str = HOOK, name: str = "chat") -> tuple[str, str]:
    """A new endpoint: its id and its secret, which stands alone on standard output."""
    done = run("webhook", "create", url, "--name", name)
    assert done.returncode == 0, done.stderr
    found = json.loads(run("webhook", "list", "--format", "json").stdout)[-1]
    assert found["id"] in done.stderr
    return found["id"], done.stdout.strip()


def test_an_endpoint_from_its_making_to_its_end(run: Run) -> None:
    endpoint, secret = made(run, name="whole")
    assert secret.startswith("whsec_")
    listed = run("webhook", "list").stdout
    assert HOOK in listed
    assert "enabled" in listed
    assert secret not in listed
    rotated = run("webhook", "rotate", endpoint, "--overlap-s", "0")
    assert rotated.stdout.strip() not in {"", secret}
    assert json.loads(run("webhook", "show", endpoint).stdout)["old_secrets_end_at"] == []
    moved = run("webhook", "change", endpoint, "--address", HOOK + "/y", "--include-costs")
    assert (HOOK + "/y" in moved.stdout, "sent" in moved.stdout) == (True, True)
    assert "not sent" in run("webhook", "change", endpoint, "--no-include-costs").stdout
    shown = json.loads(run("webhook", "show", endpoint).stdout)
    assert (shown["url"], shown["name"], shown["include_costs"]) == (HOOK + "/y", "whole", False)
    nothing = run("webhook", "change", endpoint)
    assert (nothing.returncode, "give --name, --address" in nothing.stderr) == (2, True)
    disabled = run("webhook", "disable", endpoint).stdout
    assert disabled.startswith("Webhook endpoint whole is disabled: disabled by ")
    refused = run("webhook", "test", endpoint)
    assert (refused.returncode, "is disabled: enable it first" in refused.stderr) == (1, True)
    for _ in range(2):
        # Repeating it is harmless.
        assert run("webhook", "enable", endpoint).stdout == "Webhook endpoint whole is enabled.\n"
    assert run("webhook", "delete", endpoint).stdout == "Webhook endpoint whole is deleted.\n"
    assert "there is no webhook endpoint" in run("webhook", "show", endpoint).stderr
    assert run("webhook", "delete", endpoint).returncode == 1


def test_what_cannot_be_is_a_sentence(run: Run) -> None:
    refused = run("webhook", "create", "https://u:hunter2@a.org/", "--name", "x")
    assert refused.returncode == 2
    assert "user or password is refused" in refused.stderr
    assert "hunter2" not in refused.stderr
    assert "'x' is not a valid UUID" in run("webhook", "show", "x").stderr
    by_name = run("webhook", "create", "http://hooks.internal/x", "--name", "x")
    assert "reached only while hooks.internal leads to" in by_name.stderr


def test_a_test_message_and_its_replay(run: Run) -> None:
    with receiving(answer(410), OK) as receiver:
        endpoint, _ = made(run, receiver.url())
        sent = run("webhook", "test", endpoint).stdout.strip()
        shown = ended(run, sent)
        assert (shown["state"], shown["last_status"]) == ("dead", 410)
        listed = run("delivery", "list", "--state", "dead").stdout
        assert sent in listed
        assert "answered 410" in listed
        assert "disabled" in run("delivery", "replay", sent).stderr
        assert run("delivery", "cancel", sent).returncode == 1
        run("webhook", "enable", endpoint)
        assert f"({shown['message_id']}) is sent again" in run("delivery", "replay", sent).stdout
        assert ended(run, sent)["state"] == "delivered"
    assert run("delivery", "list", "--state", "dead").stdout == "no deliveries\n"
    for arguments, num in (
        (("--kind", "email"), 0),
        (("--kind", "webhook"), 1),
        (("--schedule", "weekly"), 0),
        (("--endpoint", endpoint), 1),
        (("--run", endpoint), 0),
        (("--after", "2026-01-01", "--before", "9999-01-01T00:00:00Z"), 1),
        (("--before", "2026-01-01"), 0),
    ):
        done = run("delivery", "list", "--format", "json", *arguments)
        assert len(json.loads(done.stdout)) == num
    second = run("webhook", "test", endpoint).stdout.strip()
    newest = run("delivery", "list", "--endpoint", endpoint, "--limit", "1")
    assert (second in newest.stdout, sent in newest.stdout) == (True, False)
    assert newest.stderr == "There are more: --limit, or --before the last of them.\n"
    assert "neither a day nor a moment" in run("delivery", "list", "--after", "soon").stderr


def test_the_key_says_who_may(
    run: Run, service: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(service[1])
    planner = key_of(database, "planner")["Authorization"].removeprefix("Bearer ")
    database.close()
    monkeypatch.setitem(SHOWN, "TRAINARD_API_KEY", planner)
    assert run("webhook", "list").returncode == 0
    refused = run("webhook", "create", HOOK, "--name", "money", "--include-costs")
    assert (refused.returncode, "costs:read" in refused.stderr) == (1, True)


def ended(run: Run, delivery: str) -> dict[str, object]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found: dict[str, object] = json.loads(run("delivery", "show", delivery).stdout)
        if found["state"] != "pending":
            return found
        time.sleep(0.05)
    raise AssertionError(delivery)
