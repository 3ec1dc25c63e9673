"""Commands send the key of the environment, and say what to do where it is missing or refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
import rich_click as click
from click.testing import CliRunner, Result

from service.cli.child_service import running_service
from service.cli.http_client import open_demo_client
from service.cli.program import load
from service.cli.sent_keys import VARIABLE, SentKey, key_for
from service.db import migrate
from service.db.engine import Database
from service.jobs.scopes import Role
from tests.api.access_keys import key_of
from tests.jobs.batch_bodies import SIZES, item

BATCH = {"name": "sizing", "items": [item(axes=[SIZES])]}
UNKNOWN = f"trn_{'0' * 16}_{'A' * 43}"


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """A running service with keys, what it logs, and a key of two roles."""

    address: str
    log: Path
    planner: str
    viewer: str


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    folder = tmp_path_factory.mktemp("closed")
    url, log = f"sqlite:///{folder / 'trainard.db'}", folder / "service.log"
    migrate.upgrade(url)
    database = Database(url)

    def key(role: Role) -> str:
        return key_of(database, role)["Authorization"].removeprefix("Bearer ")

    with running_service(url, port=0, log=log) as address:
        yield Closed(address=address, log=log, planner=key("planner"), viewer=key("viewer"))
    database.close()


def run(key: str | None, name: str, *arguments: str) -> Result:
    command = load(name)
    assert isinstance(command, click.Command)
    return CliRunner(env={VARIABLE: key}).invoke(command, arguments)


def said(result: Result) -> str:
    return " ".join(result.output.replace("│", " ").split())


def test_a_batch_is_posted_followed_and_exported_with_a_key(closed: Closed, tmp_path: Path) -> None:
    file, output = tmp_path / "batch.json", tmp_path / "losses.csv"
    file.write_text(json.dumps(BATCH))
    posted = run(closed.planner, "submit", str(file), "--wait", "--url", closed.address)
    assert posted.exit_code == 0, posted.output
    exported = run(
        closed.planner, "export", "--output", str(output), "--url", closed.address, "--name", "x"
    )
    assert exported.exit_code == 0, exported.output
    assert output.exists()
    secret = closed.planner.split("_", 2)[2]
    assert secret not in posted.output + exported.output
    assert secret not in closed.log.read_text()


@pytest.mark.parametrize("command", ["submit", "cancel", "retry", "export"])
def test_without_a_key_it_says_where_to_put_one(
    closed: Closed, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "batch.json"
    file.write_text(json.dumps(BATCH))
    batch = "01a22869-6f4e-72c6-8158-fe19e726e3f8"
    arguments = {
        "submit": (str(file),),
        "cancel": (batch,),
        "retry": (batch,),
        "export": (batch, "--output", str(tmp_path / "x.csv")),
    }
    refused = run(None, command, *arguments[command], "--url", closed.address)
    assert refused.exit_code == 1
    assert f"Set {VARIABLE} to an API key" in said(refused)


def test_a_refused_key_is_named_but_not_shown(closed: Closed, tmp_path: Path) -> None:
    file = tmp_path / "batch.json"
    file.write_text(json.dumps(BATCH))
    for key, sentence in (
        (UNKNOWN, f"It is the key in {VARIABLE} that is refused"),
        (closed.viewer, f"batches:write, which viewer of a test [{closed.viewer[4:20]}] has not"),
        ("trn_x y", f"{VARIABLE} holds no key"),
        ("é", f"{VARIABLE} holds no key"),
    ):
        refused = run(key, "submit", str(file), "--url", closed.address)
        assert refused.exit_code == 1
        assert sentence in said(refused)
        assert key not in refused.output
        # The secret itself may hold the letter that parts it from the rest.
        assert key.split("_", 2)[-1] not in refused.output
    assert UNKNOWN not in closed.log.read_text()


def test_the_demo_on_a_database_with_keys_is_a_sentence(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'demo.db'}"
    migrate.upgrade(url)
    database = Database(url)
    key_of(database, "planner")
    database.close()
    refused = run(None, "demo", "--exit", "--database-url", url)
    assert refused.exit_code == 1
    assert f"Set {VARIABLE} to an API key" in said(refused)


def test_the_demo_sends_its_key_only_where_one_is_needed(
    closed: Closed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, closed.viewer)
    with open_demo_client(closed.address) as client:
        assert client.get("/v1/meta").status_code == 200
    new = f"sqlite:///{tmp_path / 'new.db'}"
    with (
        running_service(new, port=0, log=tmp_path / "new.log") as address,
        open_demo_client(address) as client,
    ):
        answer = client.get("/v1/meta")
    assert answer.status_code == 200
    assert "authorization" not in answer.request.headers


def test_a_key_is_sent_to_the_service_alone() -> None:
    flow = SentKey(UNKNOWN, httpx.URL("https://trainard.example"))
    for url, sent in (
        ("https://trainard.example/v1/meta", True),
        ("http://trainard.example/v1/meta", False),
        ("https://trainard.example:8443/v1/meta", False),
        ("https://evil.example/v1/meta", False),
    ):
        request = next(flow.auth_flow(httpx.Request("GET", url)))
        assert ("authorization" in request.headers) == sent


def test_an_unencrypted_way_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, UNKNOWN)
    for address in ("http://127.0.0.1:8000", "http://localhost", "https://trainard.example"):
        assert key_for(address) is not None
        assert capsys.readouterr().err == ""
    assert key_for("http://trainard.example") is not None
    warning = capsys.readouterr().err
    assert "without encryption" in warning
    assert UNKNOWN not in warning
    monkeypatch.setenv(VARIABLE, " ")
    assert key_for("http://trainard.example") is None
