from pathlib import Path

import pytest
from click.testing import CliRunner

from service.cli.migrate import command
from service.db import migrate
from service.db.api_keys import any_key
from service.db.engine import Database
from service.jobs import teams
from service.jobs.actors import program
from service.jobs.api_keys import create_key
from service.jobs.key_documents import KeyIn
from tests.cli.conftest import Program


def test_up_shows_what_it_did(trainard: Program) -> None:
    url = "sqlite:///new.db"
    first = trainard("migrate", "--database-url", url)
    assert first.returncode == 0, first.stderr
    assert f"migrated from base (no tables) to {migrate.head()} (newest)" in first.stdout
    assert "nothing to do" in trainard("migrate", "--database-url", url).stdout


def test_down_needs_a_yes(trainard: Program) -> None:
    url = "sqlite:///new.db"
    trainard("migrate", "--database-url", url)
    refused = trainard("migrate", "--database-url", url, "--down-to", "base")
    assert refused.returncode == 2
    assert "add --yes" in refused.stderr
    done = trainard("migrate", "--database-url", url, "--down-to", "base", "--yes")
    assert "to base (no tables)" in done.stdout


def test_down_says_what_is_lost(database_url: str) -> None:
    document = KeyIn(name="first", role="admin")
    database = Database(database_url)
    with database.write() as connection:
        made = teams.create_team(connection, "team", slug="infra")
        teams.change_team(connection, "team", "infra", rate_approval_required=True)
        create_key(connection, program("key", made.id), document)
    database.close()
    call = ("--database-url", database_url, "--down-to", "0003")
    lost = "api_key (1), audit_chain (1), audit_event (3), team.rate_approval_required (1)"
    refused = CliRunner().invoke(command, call)
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.replace("│", " ").split())
    assert f"what is in them: {lost}; add --yes if that is meant" in said
    # Nothing has changed.
    assert migrate.current(database_url) == migrate.head()
    database = Database(database_url)
    with database.read() as connection:
        assert teams.read_team(connection, "infra").rate_approval_required
        assert any_key(connection)
    database.close()
    done = CliRunner().invoke(command, [*call, "--yes"])
    assert done.exit_code == 0, done.stderr
    assert f"with what is in them: {lost}.\n" in done.stderr
    assert migrate.current(database_url) == "0003"


def test_down_of_a_mistyped_path(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/typed/wrong.db"
    refused = CliRunner().invoke(command, ["--database-url", url, "--down-to", "base", "--yes"])
    assert refused.exit_code == 1
    assert "there is no database at" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:SECRET@127.0.0.1:1/x", "postgresql://me:***@127.0.0.1:1/x"),
        ("postgresql://me@127.0.0.1:1/x?password=SECRET", "postgresql://me@127.0.0.1:1/x"),
        ("postgresql:/pw:SECRET@127.0.0.1/x", "postgresql:…"),
        ("postgresql://me:SECRET@127.0.0.1:port/x", "postgresql:…"),
    ],
)
def test_password_is_never_printed(trainard: Program, url: str, shown: str) -> None:
    refused = trainard("migrate", "--database-url", url)
    assert refused.returncode == 1
    assert shown in refused.stderr
    assert "SECRET" not in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stderr


def test_unknown_revision_is_named(trainard: Program) -> None:
    refused = trainard("migrate", "--database-url", "sqlite:///new.db", "--revision", "nope")
    assert refused.returncode == 1
    assert "nope" in refused.stderr
    assert "Traceback" not in refused.stderr
