import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from service.cli import key, team
from service.db.engine import Database
from service.jobs.actors import Actor
from service.jobs.key_checks import actor_of_key
from tests.cli.conftest import Program, environment

Run = Callable[..., Result]


@pytest.fixture
def run(database_url: str) -> Run:
    """Call `trainard key …` or `trainard team …` on the database of the test."""

    def call(group: str, *arguments: str) -> Result:
        command = {"key": key.command, "team": team.command}[group]
        return CliRunner().invoke(command, [*arguments, "--database-url", database_url])

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
    assert "need a second person's approval" in strict.stdout
    *_, row = run("team", "list").stdout.splitlines()
    assert row.split()[:2] == ["infra", "Infrastructure"]
    assert row.endswith("required")
    assert "price at once" in run("team", "update", "infra", "--no-require-rate-approval").stdout
    assert run("team", "update", "infra").exit_code == 2
    assert "'infra' already" in run("team", "create", "infra").stderr
    assert "'nobody'" in run("team", "update", "nobody", "--name", "x").stderr


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
