"""What is said of databases that are not there, too old, too new or not to be made."""

from pathlib import Path

import pytest
import rich_click as click
from click.testing import CliRunner
from sqlalchemy import text

from service.cli import audit, export, import_rates, key, migrate, prune, team
from service.cli.program import program
from service.db import migrate as migrations
from service.db.engine import Database
from tests.cli.conftest import Program

READING = {
    "key list": (key.command, ("list",)),
    "key revoke": (key.command, ("revoke", "0123456789abcdef")),
    "team list": (team.command, ("list",)),
    "team update": (team.command, ("update", "default", "--name", "x")),
    "audit verify": (audit.command, ("verify",)),
    "audit export": (audit.command, ("export", "trail.csv")),
    "audit prune": (audit.command, ("prune", "--older-than", "3")),
    "prune": (prune.command, ("--older-than", "3")),
}
MAKING = {
    "key create": (key.command, ("create", "--role", "viewer")),
    "migrate": (migrate.command, ()),
}


def call(command: click.Command, *arguments: str) -> tuple[int, str]:
    """The exit code, and standard error as one line."""
    done = CliRunner().invoke(command, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, " ".join(done.stderr.replace("│", " ").split())


def unspaced(text: str) -> str:
    return "".join(text.split())


def set_revision(url: str, revision: str) -> None:
    database = Database(url)
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": revision})
    database.close()


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", READING)
def test_a_mistyped_path_is_not_made(name: str, tmp_path: Path) -> None:
    command, arguments = READING[name]
    url = "sqlite:///typed/wrong.db"
    code, said = call(command, *arguments, "--database-url", url)
    assert code == 1
    assert f"there is no database at {url}" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", READING)
def test_reading_does_not_migrate(name: str) -> None:
    command, arguments = READING[name]
    url = "sqlite:///old.db"
    migrations.upgrade(url, "0001")
    code, said = call(command, *arguments, "--database-url", url)
    assert code == 1
    needed = f"this program needs revision {migrations.head()}: trainard migrate"
    assert f"database {url} has its tables at revision 0001, {needed}" in said
    assert migrations.current(url) == "0001"


@pytest.mark.parametrize("name", [*READING, *MAKING])
def test_a_database_of_a_newer_version(name: str, sqlite_url: str) -> None:
    command, arguments = (READING | MAKING)[name]
    set_revision(sqlite_url, "0099")
    code, said = call(command, *arguments, "--database-url", sqlite_url)
    assert code == 1
    known = f"this one knows revisions up to {migrations.head()}"
    assert f"its tables are at revision 0099 of a newer version; {known}" in said


@pytest.mark.parametrize("name", [*READING, *MAKING])
@pytest.mark.parametrize("url", ["nonsense", "mysql://me@host/name"])
def test_the_known_forms_are_named(name: str, url: str) -> None:
    command, arguments = (READING | MAKING)[name]
    code, said = call(command, *arguments, "--database-url", url)
    assert code == 1
    assert "sqlite:///path/to/file.db and postgresql://user@host/name" in said


@pytest.mark.parametrize("name", MAKING)
def test_a_folder_that_cannot_be_made(name: str, tmp_path: Path) -> None:
    command, arguments = MAKING[name]
    (tmp_path / "file").touch()
    url = f"sqlite:///{tmp_path}/file/trainard.db"
    code, said = call(command, *arguments, "--database-url", url)
    assert code == 1
    # A long path is broken where the line ends.
    assert unspaced(f"its folder {tmp_path}/file cannot be made: ") in unspaced(said)


def test_the_service_does_not_start_on_them(
    trainard_process: Program, sqlite_url: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    folder = f"its folder {tmp_path}/file cannot be made"
    set_revision(sqlite_url, "0099")
    for url, words in (
        (f"sqlite:///{tmp_path}/file/trainard.db", folder),
        (sqlite_url, "at revision 0099 of a newer version"),
    ):
        refused = trainard_process("serve", "--port", "0", "--database-url", url)
        assert refused.returncode == 1
        assert unspaced(words) in unspaced(refused.stderr.replace("│", " "))
        assert "Traceback" not in refused.stderr


def test_a_folder_that_is_not_there(sqlite_url: str) -> None:
    # As the whole program runs it: there the refusals of the system are caught.
    url = ("--database-url", sqlite_url)
    code, said = call(program, "audit", "export", "no-folder/trail.csv", *url)
    assert code == 1
    assert "no-folder/trail.csv: No such file or directory" in said
    code, said = call(export.command, "--output", "no-folder/results.csv")
    assert code == 2
    assert "there is no folder no-folder" in said


def test_faults_of_the_program_keep_their_traceback(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("not the system's")

    monkeypatch.setattr(import_rates, "_import", fail)
    (tmp_path / "rates.csv").touch()
    done = CliRunner().invoke(program, ["import-rates", "rates.csv", "--database-url", sqlite_url])
    assert isinstance(done.exception, OSError)
    assert str(done.exception) == "not the system's"
