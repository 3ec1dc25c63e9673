import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from service.cli import key, team
from service.cli.databases import without_password
from service.db.engine import Database
from service.jobs.actors import Actor
from service.jobs.key_checks import actor_of_key
from service.jobs.rate_approvals import approve_rate
from service.jobs.rate_documents import RateIn, RateOut
from service.jobs.rates import create_rate
from service.reports.money import Money
from tests.cli.conftest import Program, environment

Run = Callable[..., Result]


@pytest.fixture
def run(database_url: str) -> Run:
    """Call `trainard key …` or `trainard team …` on the database of the test."""

    def call(group: str, *arguments: str, stdin: str = "") -> Result:
        command = {"key": key.command, "team": team.command}[group]
        given = [*arguments, "--database-url", database_url]
        return CliRunner().invoke(command, given, input=stdin)

    return call


def owner(database_url: str, text: str) -> Actor:
    database = Database(database_url)
    try:
        with database.read() as connection:
            return actor_of_key(connection, text, datetime.now(UTC))
    finally:
        database.close()


def test_the_key_stands_alone_on_standard_output(run: Run, database_url: str) -> None:
    made = run("key", "create", "--role", "finance", "--team", "infra", "--name", "ledger")
    assert made.exit_code == 0, made.output
    (text,) = made.stdout.splitlines()
    actor = owner(database_url, text)
    assert actor.role == "finance"
    assert actor.name.startswith("ledger [")
    assert "Team 'infra' did not exist and was made." in made.stderr
    assert text not in made.stderr
    teams = json.loads(run("team", "list", "--json").stdout)
    assert {found["slug"]: found["id"] for found in teams}["infra"] == str(actor.team_id)


def test_keys_are_listed_and_revoked(run: Run) -> None:
    assert run("key", "list").stdout == "no keys of team 'default'\n"
    text = run("key", "create", "--role", "viewer", "--never-expires").stdout.strip()
    public_id = text.split("_")[1]
    (listed,) = json.loads(run("key", "list", "--json").stdout)
    assert (listed["public_id"], listed["role"], listed["expires_at"]) == (
        *(public_id, "viewer", None),
    )
    for _ in range(2):
        assert "is revoked" in run("key", "revoke", public_id).stdout
    heading, _, row = run("key", "list").stdout.splitlines()
    assert heading.split() == ["id", "name", "role", "state", "expires", "last", "used"]
    assert row.startswith(public_id)
    assert row.split()[-3:] == ["revoked", "never", "never"]


def test_scopes_and_lifetimes_are_taken_from_the_options(run: Run) -> None:
    run("key", "create", "--role", "planner", "--grant", "costs:read", "--expires-in-days", "7")
    run("key", "create", "--role", "admin", "--only", "audit:read", "--only", "keys:read")
    granted, kept = json.loads(run("key", "list", "--json").stdout)
    assert "costs:read" in granted["scopes"]
    lifetime = datetime.fromisoformat(granted["expires_at"]) - datetime.fromisoformat(
        granted["created_at"]
    )
    assert lifetime.total_seconds() == pytest.approx(7 * 86_400, abs=60)
    assert kept["scopes"] == ["keys:read", "audit:read"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("create", "--role", "viewer", "--grant", "costs:read"), "cannot be granted"),
        (("create", "--role", "viewer", "--never-expires", "--expires-in-days", "1"), "exclude"),
        (("create", "--role", "root"), "root"),
        (("create", "--role", "viewer", "--team", "Not A Slug"), "is no slug"),
        (("create", "--role", "viewer", "--name", "x" * 101), "101 characters"),
        (("revoke", "0123456789abcdef"), "there is no API key '0123456789abcdef'"),
        (("list", "--team", "nobody"), "there is no team 'nobody'"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    run: Run, arguments: tuple[str, ...], sentence: str
) -> None:
    refused = run("key", *arguments)
    assert refused.exit_code != 0
    assert sentence in " ".join(refused.stderr.replace("│", " ").split())
    assert refused.stdout == ""


def test_a_whole_key_on_the_command_line_is_not_repeated(run: Run) -> None:
    refused = run("key", "revoke", "trn_0123456789abcdef_" + "s" * 43)
    assert refused.exit_code == 2
    assert "middle part" in refused.stderr
    assert "sss" not in refused.output


def test_a_team_is_changed(run: Run) -> None:
    assert "is made" in run("team", "create", "infra", "--name", "Infrastructure").stdout
    strict = run("team", "update", "infra", "--require-rate-approval")
    assert strict.stdout == "Team infra (Infrastructure): rates must be approved to price.\n"
    *_, row = run("team", "list").stdout.splitlines()
    assert row.split()[:2] == ["infra", "Infrastructure"]
    assert row.endswith("required")
    assert "price at once" in run("team", "update", "infra", "--no-require-rate-approval").stdout
    assert run("team", "update", "infra").exit_code == 2
    assert "'infra' already" in run("team", "create", "infra").stderr
    assert "'nobody'" in run("team", "update", "nobody", "--name", "x").stderr


def record_rates(database_url: str, number: int) -> list[RateOut]:
    database = Database(database_url)
    try:
        with database.write() as connection:
            return [
                create_rate(
                    connection,
                    Actor(name="anna", principal="key:anna", role="finance"),
                    RateIn(
                        gpu_type=f"GPU{count}",
                        cost_center=None,
                        price_per_gpu_hour=Money(amount="2.00", currency="EUR"),
                        valid_from=date(2027, 1, 1),
                        valid_until=None,
                        source="memo",
                    ),
                )
                for count in range(number)
            ]
    finally:
        database.close()


def approve_first(database_url: str, rate: RateOut) -> None:
    database = Database(database_url)
    try:
        with database.write() as connection:
            bert = Actor(name="bert", principal="key:bert", role="finance")
            approve_rate(connection, bert, rate.id, version=rate.version)
    finally:
        database.close()


def test_a_demand_that_changes_prices_says_so_and_asks(run: Run, database_url: str) -> None:
    approve_first(database_url, record_rates(database_url, 4)[0])
    ceasing = (
        "3 of 4 current rates of the team are not approved and price nothing from now on: "
        "approve them (GET /v1/gpu-hour-rates?approved=false, "
        "POST /v1/gpu-hour-rates/{id}/approval)."
    )
    for option, sentence in (
        ("--require-rate-approval", ceasing),
        ("--no-require-rate-approval", "3 rates that nobody has approved price from now on."),
    ):
        before = run("team", "list").stdout
        refused = run("team", "update", "default", option)
        assert refused.exit_code == 2
        said = " ".join(refused.stderr.replace("│", " ").split())
        assert f"{sentence} Nothing has changed: add --yes if that is meant." in said
        assert run("team", "list").stdout == before
        done = run("team", "update", "default", option, "--yes")
        assert done.exit_code == 0, done.stderr
        assert done.stdout.splitlines()[1:] == [sentence]
        # What is so already changes nothing, and asks nothing.
        assert len(run("team", "update", "default", option).stdout.splitlines()) == 1


def test_on_a_terminal_it_is_asked(
    run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_rates(database_url, 1)
    monkeypatch.setattr(team, "is_terminal", lambda: True)
    call = ("team", "update", "default", "--require-rate-approval")
    refused = run(*call, stdin="n\n")
    assert refused.exit_code == 1
    assert "1 of 1 current rate of the team is not approved and prices nothing" in refused.stderr
    assert json.loads(run("team", "list", "--json").stdout)[0]["rate_approval_required"] is False
    assert run(*call, stdin="y\n").exit_code == 0
    assert json.loads(run("team", "list", "--json").stdout)[0]["rate_approval_required"] is True


def test_a_key_that_cannot_be_printed_is_not_made(trainard: Program, tmp_path: Path) -> None:
    for redirection, words in (
        (">/dev/full", "the key cannot be printed, so it is not made: No space left on device"),
        (">&-", "standard output is closed, so the key could not be shown: it is not made"),
    ):
        script = f'"$0" -W error -m service key create --role admin --team new {redirection}'
        done = subprocess.run(
            ["sh", "-c", script, sys.executable],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 1
        said = " ".join(done.stderr.replace("│", " ").split())
        assert words in said
        assert "Traceback" not in said
        assert "Exception ignored" not in said
    assert trainard("migrate").returncode == 0
    assert [row["slug"] for row in json.loads(trainard("team", "list", "--json").stdout)] == [
        "default"
    ]
    assert trainard("key", "list").stdout == "no keys of team 'default'\n"


def test_it_says_into_which_database_the_key_went(run: Run, database_url: str) -> None:
    made = run("key", "create", "--role", "viewer")
    assert f"Database: {without_password(database_url)}\n" in made.stderr


def test_the_shell_gets_the_key_of_a_database_that_was_not_there(
    trainard: Program, tmp_path: Path
) -> None:
    script = 'KEY=$("$0" -W error -m service key create --role admin 2>/dev/null); echo "<$KEY>"'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    (line,) = done.stdout.splitlines()
    actor = owner(f"sqlite:///{tmp_path}/data/trainard.db", line.strip("<>"))
    assert actor.role == "admin"
    assert "create" in trainard("key", "create", "--help").stdout
