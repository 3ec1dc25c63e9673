"""`trainard audit` on both databases, called within this process: each start of one takes 1 s."""

import csv
import hashlib
import json
from pathlib import Path

import pytest
import rfc8785
from click.testing import CliRunner, Result
from litestar import Litestar

from service.api.openapi import document
from service.app import create_app
from service.cli.audit import command
from service.db.engine import Database
from service.jobs.audit import PROGRAM_ACTIONS
from service.jobs.audit_sealing import seal
from service.settings import Settings
from tests.jobs.audit_trails import age, change, events, record, rehash, sealed

READING = ("get", "head", "options")
# Whose POSTs compute and store nothing.
COMPUTING = {"Evaluations", "Communication"}
PREVIEWING = {"preview_occurrences", "audit_overlap", "audit_overlap_of_files", "start_coarsely"}


def trainard(name: str, *arguments: str) -> Result:
    assert name == "audit"
    return CliRunner().invoke(command, arguments)


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_verify(database: Database, database_url: str) -> None:
    sealed(database, 4)
    call = ("audit", "verify", "--database-url", database_url)
    good = trainard(*call)
    assert (good.exit_code, good.stderr) == (0, "")
    head = f"4:{events(database)[-1].hash}"
    assert good.stdout.splitlines() == [
        "default: 4 events: all as recorded",
        f"default: head {head}",
    ]
    change(database, 2, actor="Eve")
    bad = trainard(*call)
    assert bad.exit_code == 1
    assert bad.stderr == "default: event 2 was altered since it was sealed [altered]\n"
    assert "default: 4 events: 1 finding\n" in bad.stdout
    rehash(database, 2)
    kept = trainard(*call, "--team", "default", "--head", head)
    assert kept.exit_code == 1
    assert "event 4, the head kept, has the hash" in kept.stderr
    assert trainard(*call).exit_code == 0


def test_verify_says_what_cannot_be_checked(sqlite_url: str) -> None:
    call = ("audit", "verify", "--database-url", sqlite_url)
    for arguments, words in (
        (("--head", "4:" + "0" * 64), "give --team too"),
        (("--team", "default", "--head", "4"), "SEQUENCE:HASH"),
    ):
        refused = trainard(*call, *arguments)
        assert refused.exit_code == 2
        assert words in refused.stderr
    assert trainard(*call, "--team", "nobody").exit_code == 1
    missing = trainard("audit", "verify", "--database-url", "sqlite:///missing.db")
    assert missing.exit_code == 1
    assert "there is no database at sqlite:///missing.db" in missing.stderr


def test_export(database: Database, database_url: str, tmp_path: Path) -> None:
    record(database, 2, detail="=1+1")
    record(database, 1, subject="@SUM(A1)", detail='a "quoted", line\nbreak')
    age(database, range(1, 2), 40)
    seal(database)
    call = ("audit", "export", "--database-url", database_url)
    written = trainard(*call, "trail.jsonl")
    assert written.exit_code == 0, written.stderr
    lines = [json.loads(line) for line in (tmp_path / "trail.jsonl").read_text().splitlines()]
    assert [line["sequence"] for line in lines] == [1, 2, 3]
    for line in lines:
        hashed = {name: line[name] for name in line if name != "hash" and line[name] is not None}
        assert hashlib.sha256(rfc8785.dumps(hashed)).hexdigest() == line["hash"]
    assert (tmp_path / "trail.jsonl").stat().st_mode & 0o777 == 0o600
    assert trainard(*call, "trail.csv").exit_code == 0
    with (tmp_path / "trail.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["detail"] for row in rows] == ["'=1+1", "'=1+1", 'a "quoted", line\nbreak']
    assert rows[2]["subject"] == "'@SUM(A1)"
    day = events(database)[1].created_at.date().isoformat()
    recent = trainard(*call, "-", "--format", "jsonl", "--from", day)
    assert [json.loads(line)["sequence"] for line in recent.stdout.splitlines()] == [2, 3]
    older = trainard(*call, "-", "--format", "jsonl", "--until", day)
    assert [json.loads(line)["sequence"] for line in older.stdout.splitlines()] == [1]


def test_export_says_what_is_wrong(sqlite_url: str) -> None:
    call = ("audit", "export", "--database-url", sqlite_url)
    for arguments, words in (
        (("trail.txt",), "ends in no format"),
        (("trail.csv", "--from", "yesterday"), "neither a day nor a moment"),
        (("trail.csv", "--until", "2026-11-01T10:00"), "has no time zone"),
    ):
        refused = trainard(*call, *arguments)
        assert refused.exit_code == 2
        assert words in refused.stderr
    assert trainard(*call, "trail.csv", "--team", "nobody").exit_code == 1


def test_prune(database: Database, database_url: str) -> None:
    record(database, 5)
    age(database, range(1, 4), 40)
    call = ("audit", "prune", "--older-than", "30", "--database-url", database_url)
    checked = trainard(*call, "--dry-run")
    assert checked.stdout.splitlines() == [
        "3 events are older than 30 days",
        "dry run: nothing is removed",
    ]
    assert len(events(database)) == 5
    pruned = trainard(*call)
    assert pruned.exit_code == 0, pruned.stderr
    assert pruned.stdout.splitlines()[1].startswith("removed 3 events: ")
    assert [event.sequence for event in events(database)] == [4, 5, 6]
    good = trainard("audit", "verify", "--database-url", database_url)
    assert good.exit_code == 0, good.stderr
    assert "3 events, 3 before them pruned: all as recorded" in good.stdout


@pytest.fixture
def app(sqlite_database: Database) -> Litestar:
    return create_app(Settings(), sqlite_database)


def test_the_help_names_every_action(app: Litestar) -> None:
    """What is not a change has no event that is `done`."""
    changing = {
        operation["operationId"]
        for methods in document(app)["paths"].values()
        for method, operation in methods.items()
        if method not in READING and not COMPUTING & set(operation["tags"])
    }
    words = set((command.help or "").replace(",", " ").replace(".", " ").split())
    assert (changing - PREVIEWING | set(PROGRAM_ACTIONS)) - words == set()
