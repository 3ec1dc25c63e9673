"""Revoking a key ends what it has open, over real HTTP."""

import time
from itertools import repeat
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from service.api import contract
from service.db.engine import Database
from service.db.table_parts import utc_now
from service.db.tables import api_key
from service.jobs.export_extracts import Extract
from tests.api.access_keys import key_of
from tests.api.served import served, wait_until
from tests.jobs.batch_bodies import cancel, item, speeds, submit

TIMEOUT_S = 20


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "LOOK_EVERY_S", 0.05)


def revoke_all(database: Database) -> None:
    with database.write() as connection:
        connection.execute(update(api_key).values(revoked_at=utc_now()))


def test_a_download_breaks_off_when_its_key_is_revoked(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Extract, "written", lambda *_: repeat(b"x" * 1_000))
    headers = key_of(sqlite_database, "finance")
    with (
        served(sqlite_database) as (address, _),
        httpx.Client(base_url=address, headers=headers, timeout=TIMEOUT_S) as client,
    ):
        with client.stream("GET", "/v1/exports") as answer:
            parts = answer.iter_raw()
            for _ in range(100):
                next(parts)
            revoke_all(sqlite_database)
            with pytest.raises(httpx.RemoteProtocolError):
                list(parts)
        # Its connection to the database has come back.
        pool: Any = sqlite_database.engine.pool
        wait_until(lambda: pool.checkedout() == 0)
        assert client.get("/v1/exports").status_code == 401


def test_events_end_when_their_key_is_revoked(database: Database) -> None:
    headers = key_of(database, "viewer")
    batch_id = submit(database, item(axes=[speeds(1_000)])).id
    with (
        served(database) as (address, app),
        httpx.Client(base_url=address, headers=headers, timeout=TIMEOUT_S) as client,
        client.stream("GET", f"/v1/scenario-batches/{batch_id}/events") as answer,
    ):
        parts = answer.iter_raw()
        assert any(b"event: progress" in part for part in parts)
        revoke_all(database)
        time.sleep(0.1)
        cancel(database, batch_id)
        assert b"".join(parts) == b""
        wait_until(lambda: app.state.batch_watch.num_streams == 0)


def test_events_end_when_their_session_is_signed_out(sqlite_database: Database) -> None:
    key = key_of(sqlite_database, "viewer")["Authorization"].removeprefix("Bearer ")
    batch_id = submit(sqlite_database, item(axes=[speeds(1_000)])).id
    ours = {"Sec-Fetch-Site": "same-origin"}
    with (
        served(sqlite_database) as (address, app),
        httpx.Client(base_url=address, headers=ours, timeout=TIMEOUT_S) as client,
    ):
        assert client.post("/v1/session", json={"key": key}).status_code == 201
        with client.stream("GET", f"/v1/scenario-batches/{batch_id}/events") as answer:
            parts = answer.iter_raw()
            assert any(b"event: progress" in part for part in parts)
            assert client.delete("/v1/session").status_code == 204
            time.sleep(0.1)
            cancel(sqlite_database, batch_id)
            assert b"".join(parts) == b""
        wait_until(lambda: app.state.batch_watch.num_streams == 0)
