"""`/v1/calibrations` over HTTP: files in, findings out, a process of its own for each upload."""

import gzip
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import structlog
from litestar.testing import TestClient

from service.app import create_app
from service.calibration.findings import Findings
from service.db.engine import Database
from service.jobs.calibration_work import ReadingCanceledError
from service.settings import Limits, Settings
from tests.api.calibration_tables import SLOW_RANK, findings, table
from tests.api.conftest import BASE_URL
from tests.api.served import served, wait_until

PATH = "/v1/calibrations"
BOUNDARY = "7d3f0c9b"
DISPOSITION = b'Content-Disposition: form-data; name="file"; filename="a.csv"'
START = b"--%s\r\n%s\r\n\r\n" % (BOUNDARY.encode(), DISPOSITION)
LIMITS = Limits(header_s=2, body_s=1, calibration_bytes=50_000_000)


def files(*contents: bytes) -> list[tuple[str, tuple[str, bytes]]]:
    return [("file", (f"rank{n}.csv", content)) for n, content in enumerate(contents)]


@pytest.fixture(scope="module")
def spooling(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, Path]]:
    """A service, and the folder where its uploads lie."""
    folder = tmp_path_factory.mktemp("calibrations")
    path, spool = folder / "trainard.db", folder / "spool"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database(f"sqlite:///{path}")
    settings = Settings(limits=LIMITS, spool_folder=str(spool))
    with TestClient(create_app(settings, database), base_url=BASE_URL) as client:
        yield client, spool
    database.close()
    structlog.reset_defaults()


def leftovers(spool: Path) -> list[Path]:
    return list(spool.glob("trainard-spool-*/*/"))


def test_a_table_becomes_a_calibration_and_then_a_profile(spooling: tuple[Any, Path]) -> None:
    client, spool = spooling
    key = {"Idempotency-Key": "a-run"}
    query = {"name": "night 3", "confidence": "0.8"}
    sent = {"params": query, "files": files(gzip.compress(table(), mtime=0)), "headers": key}
    made = client.post(PATH, **sent)
    assert made.status_code == 201, made.text
    found = made.json()
    assert (found["name"], found["state"], found["options"]["confidence"]) == (
        *("night 3", "proposed", 0.8),
    )
    (slow,) = found["findings"]["outliers"]
    assert (slow["rank"], slow["kind"]) == (SLOW_RANK, "slow")
    assert leftovers(spool) == []
    # The same again: not even read
    again = client.post(PATH, **sent)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == made.content
    other = client.post(PATH, **{**sent, "files": files(table())})
    assert other.json()["type"] == "/problems/idempotency-key-reused"
    path = made.headers["location"]
    read = client.get(path)
    assert (read.json(), read.headers["etag"]) == (found, made.headers["etag"])
    assert client.get(path, headers={"If-None-Match": read.headers["etag"]}).status_code == 304
    body = {"profile": "from-run", "new_profile": {"name": "From a run", "gpu_type": "H100"}}
    accepted = client.post(f"{path}/acceptance", json=body)
    assert accepted.status_code == 201, accepted.text
    revision = accepted.json()
    assert revision == client.get(accepted.headers["location"]).json()
    assert revision["provenance"]["calibration_id"] == found["id"]
    (listed,) = client.get(f"{PATH}?state=accepted").json()["items"]
    assert listed["accepted_as"] == {"slug": "from-run", "revision": 1}
    refused = client.delete(path, headers={"If-Match": '"2"'})
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/accepted-calibration")
    assert client.delete(path).status_code == 428


def test_what_is_only_checked_is_not_stored(spooling: tuple[Any, Path]) -> None:
    client, _ = spooling
    before = len(client.get(PATH).json()["items"])
    checked = client.post(f"{PATH}?validate_only=true", files=files(table()))
    assert checked.status_code == 200, checked.text
    told = checked.json()
    assert "id" not in told
    assert told["name"] == "rank0.csv"
    # The process tells what this one does, but for the name of the file
    own = msgspec.structs.replace(findings(), source=None)
    sent = msgspec.json.decode(msgspec.json.encode(own))
    assert {**told["findings"], "source": None} == sent
    assert len(client.get(PATH).json()["items"]) == before


def test_timings_that_tell_nothing_are_refused_with_every_reason(
    spooling: tuple[Any, Path], problem_of: Callable[[httpx.Response, str], Any]
) -> None:
    client, spool = spooling
    bad = b"step,rank,compute_ms\n0,0,nan\n0,1,-5\n"
    found = problem_of(client.post(PATH, files=files(bad)), "refused-timings")
    assert found["errors"]
    assert {fault["pointer"] for fault in found["errors"]} == {"/file/rank0.csv/2"}
    assert leftovers(spool) == []


def test_what_the_query_says_wrong_costs_no_upload(
    spooling: tuple[Any, Path], problem_of: Callable[[httpx.Response, str], Any]
) -> None:
    client, _ = spooling
    for query, slug in (
        ("confidence=1", "malformed-request"),
        ("gpus=8", "malformed-request"),
        ("name=%20x", "invalid-input"),
        ("profile=absent", "unknown-profile"),
        ("profile=a@b", "malformed-profile-reference"),
    ):
        problem_of(client.post(f"{PATH}?{query}", content=b"never read"), slug)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator["Reading"]:
    """A reading that goes on until it is let or told to end, in place of a process."""
    found = Reading()
    monkeypatch.setattr("service.api.calibrations.find", found)
    yield found
    found.may_end.set()


class Reading:
    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.num_canceled = 0

    def __call__(
        self, _files: object, _options: object, *, is_canceled: Callable[[], bool]
    ) -> Findings:
        self.begun.release()
        while not self.may_end.wait(0.02):
            if is_canceled():
                self.num_canceled += 1
                raise ReadingCanceledError
        return findings()


def request(length: int | None, body: bytes) -> bytes:
    size = f"Content-Length: {length}" if length is not None else "Transfer-Encoding: chunked"
    head = [
        f"POST {PATH} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
        *(size, "", ""),
    ]
    return "\r\n".join(head).encode() + body


def whole() -> bytes:
    body = START + table() + b"\r\n--%s--\r\n" % BOUNDARY.encode()
    return request(len(body), body)


@pytest.fixture
def port(sqlite_database: Database, tmp_path: Path) -> Iterator[int]:
    with served(sqlite_database, LIMITS, spool_folder=str(tmp_path)) as (address, _):
        yield int(address.rpartition(":")[2])
    assert leftovers(tmp_path) == []


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=90)


def status_of(client: socket.socket) -> int:
    return int(client.recv(65_536).split(b" ")[1])


def test_a_reading_ends_when_its_client_goes(port: int, tmp_path: Path, reading: Reading) -> None:
    with closing(connect(port)) as client:
        client.sendall(whole())
        assert reading.begun.acquire(timeout=90)
        assert len(leftovers(tmp_path)) == 1
    wait_until(lambda: reading.num_canceled == 1)
    wait_until(lambda: leftovers(tmp_path) == [])
    with closing(connect(port)) as client:
        reading.may_end.set()
        client.sendall(whole())
        assert status_of(client) == 201


def test_one_caller_reads_one_after_the_other_and_sends_two(
    port: int, reading: Reading, tmp_path: Path
) -> None:
    with closing(connect(port)) as first, closing(connect(port)) as second:
        for client in (first, second):
            client.sendall(whole())
        wait_until(lambda: len(leftovers(tmp_path)) == 2)
        assert reading.begun.acquire(timeout=90)
        assert not reading.begun.acquire(timeout=0.3)
        with closing(connect(port)) as third:
            third.sendall(whole())
            assert status_of(third) == 429
        reading.may_end.set()
        assert (status_of(first), status_of(second)) == (201, 201)


def test_a_service_that_stops_ends_its_readings(
    sqlite_database: Database, reading: Reading, tmp_path: Path
) -> None:
    with served(sqlite_database, LIMITS, spool_folder=str(tmp_path)) as (address, _):
        client = connect(int(address.rpartition(":")[2]))
        client.sendall(whole())
        assert reading.begun.acquire(timeout=90)
    assert reading.num_canceled == 1
    with closing(client):
        assert status_of(client) == 503
    assert leftovers(tmp_path) == []


def test_an_upload_may_take_long_but_must_not_drip(port: int) -> None:
    """One second is given to any body; an upload that goes on at a pace is given more."""
    with closing(connect(port)) as slow, closing(connect(port)) as steady:
        slow.sendall(request(1_000_000, START))
        steady.sendall(request(1_000_000, START))
        began = time.monotonic()
        for _ in range(25):
            steady.sendall(os.urandom(20_000))
            time.sleep(0.1)
        assert time.monotonic() - began > 2.4
        assert status_of(slow) == 408
        steady.setblocking(False)
        with pytest.raises(BlockingIOError):
            steady.recv(1)


def test_a_body_that_stops_is_gone_with_its_client(port: int, tmp_path: Path) -> None:
    with closing(connect(port)) as client:
        client.sendall(request(10_000_000, START + b"1" * 2_000_000))
        wait_until(lambda: any(tmp_path.glob("trainard-spool-*/*/000001")))
    wait_until(lambda: leftovers(tmp_path) == [])


def test_a_caller_is_refused_before_the_body_is_sent(port: int) -> None:
    """Who says that too much comes is told at once."""
    with closing(connect(port)) as client:
        client.sendall(request(10**12, b""))
        head, _, body = client.recv(65_536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert (
        "1000000000000 bytes, but the limit of all files is 50000000" in json.loads(body)["detail"]
    )
