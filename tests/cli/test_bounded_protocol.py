"""Slow, large and many: raw sockets against the real server, with short times."""

import json
import re
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import httpx
import pytest

from service.cli.bounded_protocol import allow_open_files
from service.db.engine import Database
from service.settings import Limits
from tests.api.served import served, wait_until
from tests.cli.conftest import Start
from tests.cli.test_serve import ready_port
from tests.jobs.batch_bodies import SEED, item, submit

LIMITS = Limits(
    header_s=1, body_s=2, header_bytes=16_384, body_bytes=100_000, connections=40, stall_s=5
)
EVALUATION = json.dumps({"scenario": SEED, "ranks_limit": 0}).encode()


class Service:
    def __init__(self, address: str) -> None:
        self.address = address
        self.port = int(address.rpartition(":")[2])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=90)

    def is_healthy(self) -> bool:
        return httpx.get(f"{self.address}/healthz", timeout=5).status_code == httpx.codes.OK


@pytest.fixture
def service(sqlite_database: Database) -> Iterator[Service]:
    with served(sqlite_database, LIMITS) as (address, _):
        yield Service(address)


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]).encode()


def post(*lines: str) -> bytes:
    return head("POST", "/v1/evaluations", "Content-Type: application/json", *lines)


def read_all(client: socket.socket) -> bytes:
    """What is sent until the connection is closed; the system's own breaking of it is a fault."""
    found = b""
    while piece := client.recv(65_536):
        found += piece
    return found


def problem(answer: bytes) -> dict[str, Any]:
    header, _, body = answer.partition(b"\r\n\r\n")
    assert b"Content-Type: application/problem+json" in header
    found: dict[str, Any] = json.loads(body)
    assert header.startswith(b"HTTP/1.1 %d " % found["status"])
    assert f"X-Request-Id: {found['trace_id']}".encode() in header
    return found


def drip(client: socket.socket, byte: bytes, within_s: float) -> None:
    """Send a byte ten times a second until the other side has had enough."""
    started = time.monotonic()
    client.settimeout(0.1)
    while time.monotonic() - started < within_s:
        try:
            client.sendall(byte)
            if client.recv(1, socket.MSG_PEEK):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    client.settimeout(10)


@pytest.mark.parametrize(
    ("sent", "byte", "within_s"),
    [
        (b"GET /healthz HTTP/1.1\r\nX-A: ", b"a", 1),
        (b"GET /", b"a", 1),
        (post("Content-Length: 1000"), b" ", 2),
        (post("Transfer-Encoding: chunked"), b"1\r\n \r\n", 2),
    ],
)
def test_a_request_that_drips_is_ended_while_others_are_answered(
    service: Service, sent: bytes, byte: bytes, within_s: float
) -> None:
    with closing(service.connect()) as slow:
        started = time.monotonic()
        slow.sendall(sent)
        assert service.is_healthy()
        drip(slow, byte, 8)
        assert within_s <= time.monotonic() - started < within_s + 1.5
        found = problem(read_all(slow))
    assert (found["status"], found["type"]) == (408, "/problems/request-timeout")
    assert f"did not arrive within {within_s} s" in found["detail"]
    assert service.is_healthy()


@pytest.mark.parametrize("sent", [b"", b"\r\n"])
def test_a_connection_that_asks_nothing_is_closed_without_a_word(
    service: Service, sent: bytes
) -> None:
    started = time.monotonic()
    with closing(service.connect()) as silent:
        silent.sendall(sent)
        assert read_all(silent) == b""
    assert 0.9 <= time.monotonic() - started < 3


@pytest.mark.parametrize(
    "sent",
    [
        head("GET", "/healthz", "X-A: " + "a" * 100_000),
        head("GET", "/healthz", *(f"X-{number}: a" for number in range(3_000))),
        head("GET", "/healthz?" + "a" * 20_000),
    ],
)
def test_a_large_header_is_refused(service: Service, sent: bytes) -> None:
    with closing(service.connect()) as client:
        client.sendall(sent)
        found = problem(read_all(client))
    assert (found["status"], found["type"]) == (431, "/problems/header-too-large")
    assert "the limit is 16384" in found["detail"]
    assert service.is_healthy()


def test_a_header_without_end_is_not_kept(service: Service) -> None:
    with closing(service.connect()) as client:
        sent = sent_until_closed(client, b"GET / HTTP/1.1\r\nX-A: ", b"a" * 65_536)
    # What the service reads past, and what both systems keep for it
    assert sent < 20_000_000
    assert service.is_healthy()


def sent_until_closed(client: socket.socket, first: bytes, piece: bytes) -> int:
    """How many bytes could be sent before the other side had enough."""
    sent = 0
    with suppress(OSError):
        client.sendall(first)
        while sent < 100_000_000:
            client.sendall(piece)
            sent += len(piece)
    return sent


def test_a_header_just_under_the_limit_is_read(service: Service) -> None:
    with closing(service.connect()) as client:
        client.sendall(head("GET", "/healthz", "X-A: " + "a" * 16_000, "Connection: close"))
        assert read_all(client).startswith(b"HTTP/1.1 200 ")


def test_too_many_connections_are_refused_at_once_and_the_others_served(service: Service) -> None:
    idle = [service.connect() for _ in range(300)]
    try:
        wait_until(lambda: is_refused(idle[-1]))
        found = problem(read_all(idle[-1]))
        assert found["type"] == "/problems/too-many-connections"
        assert "40 connections" in found["detail"]
        # Those that ask nothing are closed in a second, and their places are free again.
        wait_until(lambda: is_answered(service), seconds=5)
    finally:
        for connection in idle:
            connection.close()


def is_refused(client: socket.socket) -> bool:
    return client.recv(1, socket.MSG_PEEK) == b"H"


def is_answered(service: Service) -> bool:
    try:
        return service.is_healthy()
    except httpx.TransportError:
        return False


def test_idle_connections_hold_up_nobody(service: Service) -> None:
    idle = [service.connect() for _ in range(30)]
    try:
        started = time.monotonic()
        assert service.is_healthy()
        assert time.monotonic() - started < 0.9
    finally:
        for connection in idle:
            connection.close()


def test_a_long_answer_is_not_cut(service: Service, sqlite_database: Database) -> None:
    batch = submit(sqlite_database, item())
    path = f"/v1/scenario-batches/{batch.id}/events"
    with closing(service.connect()) as client:
        client.sendall(head("GET", path))
        started = time.monotonic()
        client.settimeout(1)
        while time.monotonic() - started < LIMITS.body_s + LIMITS.header_s + 1:
            try:
                assert client.recv(65_536) != b""
            except TimeoutError:
                continue


def test_pipelined_requests_are_answered_in_their_order(service: Service) -> None:
    first = post(f"Content-Length: {len(EVALUATION)}") + EVALUATION
    last = head("GET", "/nope", "Connection: close")
    with closing(service.connect()) as client:
        client.sendall(first + head("GET", "/healthz") + last)
        answers = read_all(client)
    assert re.findall(rb"HTTP/1\.1 (\d{3}) ", answers) == [b"200", b"200", b"404"]


def test_many_small_pipelined_requests_are_no_large_header(service: Service) -> None:
    one = head("GET", "/healthz")
    count = 2 * LIMITS.header_bytes // len(one)
    with closing(service.connect()) as client:
        client.sendall(one * count + head("GET", "/healthz", "Connection: close"))
        assert read_all(client).count(b"HTTP/1.1 200 ") == count + 1


def test_nonsense_after_a_request_leaves_its_answer_whole(service: Service) -> None:
    with closing(service.connect()) as client:
        client.sendall(post(f"Content-Length: {len(EVALUATION)}") + EVALUATION + b"\0nonsense\r\n")
        answer = read_all(client)
    header, _, body = answer.partition(b"\r\n\r\n")
    assert header.startswith(b"HTTP/1.1 200 ")
    assert json.loads(body)["result"]["gpu_hours_lost"] > 0


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        head("CONNECT", "evil.example:443"),
        head("GET", "http://[/"),
        head("GET", "/", "Content-Length: 5", "Transfer-Encoding: chunked"),
        head("GET", "/", "Content-Length: -1"),
        head("GET", "/é"),
    ],
)
def test_what_is_no_http_is_a_problem_document(service: Service, sent: bytes) -> None:
    with closing(service.connect()) as client:
        client.sendall(sent)
        found = problem(read_all(client))
    assert (found["status"], found["type"]) == (400, "/problems/malformed-request")


def test_a_body_is_asked_for_only_when_it_will_be_read(service: Service) -> None:
    lines = ("Expect: 100-continue", f"Content-Length: {len(EVALUATION)}", "Connection: close")
    with closing(service.connect()) as client:
        client.sendall(post(*lines))
        assert client.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(EVALUATION)
        assert read_all(client).startswith(b"HTTP/1.1 200 ")
    with closing(service.connect()) as client:
        client.sendall(post("Expect: 100-continue", "Content-Length: 100001", "Connection: close"))
        assert read_all(client).startswith(b"HTTP/1.1 413 ")


def test_a_chunked_body_over_the_limit_is_refused_without_reading_all(service: Service) -> None:
    chunk = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    with closing(service.connect()) as client:
        assert sent_until_closed(client, post("Transfer-Encoding: chunked"), chunk) < 20_000_000
    with closing(service.connect()) as client:
        client.sendall(post("Transfer-Encoding: chunked") + chunk * 20)
        assert client.recv(65_536).startswith(b"HTTP/1.1 413 ")


def test_trailers_are_read_past(service: Service) -> None:
    chunked = b"%x\r\n%s\r\n0\r\nX-Trailer: a\r\n\r\n" % (len(EVALUATION), EVALUATION)
    with closing(service.connect()) as client:
        client.sendall(post("Transfer-Encoding: chunked", "Connection: close") + chunked)
        assert read_all(client).startswith(b"HTTP/1.1 200 ")


def test_the_program_serves_within_its_limits(start: Start) -> None:
    program = Service(f"http://127.0.0.1:{ready_port(start('serve', '--port', '0'))}")
    with closing(program.connect()) as client:
        client.sendall(head("GET", "/healthz", "X-A: " + "a" * 40_000))
        assert "the limit is 32768" in problem(read_all(client))["detail"]


def test_as_many_files_may_be_open_as_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
        allow_open_files(100)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1_024, hard)
        allow_open_files(1_000)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1_256, hard)
        # More than the machine allows is not asked for.
        allow_open_files(hard)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
