"""The list of events: own team only, newest first, filtered, and read without a trace."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.db.engine import Database
from service.jobs.actors import Actor
from service.jobs.audit_sealing import seal
from service.settings import Settings
from tests.api.access_keys import key_of, new_team
from tests.api.conftest import BASE_URL
from tests.api.reused_apps import app_over
from tests.jobs.audit_trails import age, events, record

PATH = "/v1/audit-events"


@pytest.fixture
def client(database: Database) -> Iterator[TestClient[Litestar]]:
    with app_over(Settings(), database) as app, TestClient(app, base_url=BASE_URL) as opened:
        yield opened


def test_the_newest_come_first_page_by_page(client: Any, database: Database) -> None:
    record(database, 5)
    seal(database)
    first = client.get(PATH, params={"page_size": 3})
    assert [item["sequence"] for item in first.json()["items"]] == [5, 4, 3]
    record(database, 1)
    second = client.get(first.headers["link"].split(">")[0][1:]).json()
    assert [item["sequence"] for item in second["items"]] == [2, 1]
    assert second["next_page_token"] is None
    newest = first.json()["items"][0]
    last = events(database)[4]
    assert (newest["hash"], newest["previous_hash"]) == (last.hash, last.previous_hash)
    assert newest["created_at"] == last.created_at.isoformat().replace("+00:00", "Z")


def test_the_filters(client: Any, database: Database) -> None:
    record(database, 2)
    record(database, 1, action="delete_batch", subject="scenario-batch/1")
    record(database, 1, outcome="refused", actor=Actor(name="Eve"))
    age(database, range(1, 2), 3)
    moment = (events(database)[1].created_at - timedelta(days=1)).isoformat()

    def found(**query: str) -> list[int]:
        answer = client.get(PATH, params=query)
        assert answer.status_code == 200, answer.text
        return [item["sequence"] for item in answer.json()["items"]]

    assert found(action="delete_batch") == [3]
    assert found(subject="scenario-batch/1") == [3]
    assert found(outcome="refused") == [4]
    assert found(actor="Eve") == [4]
    assert found(actor="Eve", outcome="done") == []
    assert found(created_after=moment) == [4, 3, 2]
    assert found(created_before=moment) == [1]
    token = client.get(PATH, params={"page_size": 1}).json()["next_page_token"]
    assert client.get(PATH, params={"page_token": token, "actor": "Eve"}).status_code == 400
    assert client.get(PATH, params={"outcome": "other"}).status_code == 400


def test_only_the_own_team_and_only_with_the_scope(client: Any, database: Database) -> None:
    other = new_team(database, "other")
    record(database, 2)
    record(database, 1, actor=Actor(team_id=other, name="them"))
    theirs = client.get(PATH, headers=key_of(database, "admin", other)).json()["items"]
    assert [item["actor"] for item in theirs] == ["them"]
    ours = client.get(PATH, headers=key_of(database, "admin")).json()["items"]
    assert [item["sequence"] for item in ours] == [2, 1]
    assert client.get(PATH, headers=key_of(database, "finance")).status_code == 403
    # Reading it leaves no trace, the refusal does.
    assert [event.outcome for event in events(database)] == ["done", "done", "refused"]
