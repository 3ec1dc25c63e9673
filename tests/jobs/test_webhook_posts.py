"""Posting to real receivers on this machine."""

import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from service.jobs import webhook_posts
from service.jobs.webhook_posts import KEPT_BYTES, Posted, _watched, post
from tests.jobs.receivers import LOOPBACK, OK, Receiver, answer, certified, receiving

PAYLOAD = b'{"type":"webhook.test"}'
HEADERS = {"webhook-id": "msg_1"}
NAME = "hooks.example.org"


@pytest.fixture(autouse=True)
def _own_trust() -> Iterator[None]:
    webhook_posts._trust.cache_clear()
    yield
    webhook_posts._trust.cache_clear()


def send(receiver: Receiver, total_s: float = 5.0, host: str = "127.0.0.1") -> Posted:
    return post(
        receiver.url(host),
        PAYLOAD,
        HEADERS,
        networks=LOOPBACK,
        resolve=lambda _host, _port: ["127.0.0.1"],
        total_s=total_s,
    )


def test_the_bytes_arrive_as_they_were_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with receiving() as receiver:
        posted = send(receiver, host=NAME)
    assert posted == Posted(status=200, answer="ok")
    assert posted.is_delivered
    (request,) = receiver.received
    assert request.line == "POST /hook?x=1 HTTP/1.1"
    assert request.body == PAYLOAD
    assert request.headers["host"] == f"{NAME}:{receiver.port}"
    assert request.headers["webhook-id"] == "msg_1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == "Trainard-Webhook/1"


@pytest.mark.parametrize("status", [301, 302, 304, 307, 308, 400, 404, 410, 429, 500, 503])
def test_all_but_2xx_is_a_failure_and_redirects_are_not_followed(status: int) -> None:
    with receiving() as target:
        location = f"Location: {target.url()}"
        with receiving(answer(status, location, body=b"why")) as receiver:
            posted = send(receiver)
        assert (posted.status, posted.is_delivered) == (status, False)
        assert posted.error is not None
        assert posted.error.startswith(f"answered {status}")
        assert target.num_connections == 0
    assert ("redirects are not followed" in posted.error) == (status in {301, 302, 307, 308})


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_success(status: int) -> None:
    with receiving(answer(status)) as receiver:
        assert send(receiver) == Posted(status=status)


def test_retry_after_is_read_in_both_forms() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=90), usegmt=True)
    found = []
    garbage = (
        *("soon", "-5", "Tue, 99 Foo 2026", "1e9", "\u0661".encode().decode("latin-1"), ","),
        *("Fri, 31 Dec 99999999999999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 -9999"),
        *("Fri, 31 Dec 2027 23:59:59 +99999999999999999999", "Fri, 31 Dec 2027 23:59:59 -0000"),
        *("Fri, 31 Dec 0001 00:00:00 +2359", "9" * 5_000 + "x", "[", "Mon, 1"),
    )
    for value in ("120", later, past, *garbage):
        with receiving(answer(503, f"Retry-After: {value}")) as receiver:
            found.append(send(receiver).retry_after_s)
    assert found[0] == 120
    assert found[1] is not None
    assert 80 < found[1] <= 90
    assert found[2] == 0
    # What cannot be understood is as if it were not there, and no error of ours.
    assert [part for part in found[3:] if part is not None and part > 0] == []
    with receiving(answer(200, "Retry-After: 120")) as receiver:
        assert send(receiver).retry_after_s is None


def drip(first: bytes, receiver: list[Receiver]) -> Callable[[socket.socket], None]:
    def answered(connection: socket.socket) -> None:
        connection.sendall(first)
        while not receiver[0].wait_or_closing(0.05):
            connection.sendall(b"x")

    return answered


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        b"",
    ],
    ids=["header", "body", "status line"],
)
def test_a_slow_answer_ends_with_the_time_whatever_drips(first: bytes) -> None:
    holder: list[Receiver] = []
    with receiving(drip(first, holder)) as receiver:
        holder.append(receiver)
        begun = time.monotonic()
        posted = send(receiver, total_s=0.5)
        assert time.monotonic() - begun < 2
    assert not posted.is_delivered
    assert posted.error in {"no whole answer within 0.5 s", "the answer came too late"}


def test_a_connection_made_after_the_time_is_ended_too() -> None:
    """A busy machine: the timer goes off while the connection is still being made."""

    class Stream:
        def __init__(self, opened: socket.socket) -> None:
            self.opened = opened

        def get_extra_info(self, _: str) -> socket.socket:
            return self.opened

    ours, theirs = socket.socketpair()
    with ours, theirs, _watched(time.monotonic()) as watch:
        # The timer, which has no time left, goes off meanwhile and finds no connection.
        time.sleep(0.05)
        watch("connection.connect_tcp.complete", {"return_value": Stream(ours)})
        theirs.settimeout(5)
        assert theirs.recv(1) == b""


def test_a_server_that_says_nothing_ends_with_the_time() -> None:
    holder: list[Receiver] = []

    def silent(_: socket.socket) -> None:
        holder[0].wait_or_closing(10)

    with receiving(silent) as receiver:
        holder.append(receiver)
        assert send(receiver, total_s=0.4).error == "no whole answer within 0.4 s"


def test_of_a_huge_answer_little_is_read_and_less_kept() -> None:
    sent = []

    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        for _ in range(20_000):
            connection.sendall(b"\0" * 50_000)
            sent.append(50_000)

    with receiving(flood) as receiver:
        begun = time.monotonic()
        posted = send(receiver)
        assert time.monotonic() - begun < 3
    assert posted.is_delivered
    assert posted.answer == "\ufffd" * KEPT_BYTES
    assert sum(sent) < 30_000_000


def test_what_is_no_http_is_a_failure() -> None:
    for nonsense in (b"SSH-2.0-OpenSSH_9\r\n", b"", b"HTTP/1.1 200"):
        with receiving(nonsense) as receiver:
            posted = send(receiver)
        assert (posted.status, posted.is_delivered) == (None, False)
        assert posted.error is not None
        assert posted.error.startswith("the connection broke")


def test_a_closed_port_is_a_failure_and_the_next_address_is_tried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    posted = post(f"http://127.0.0.1:{port}/", PAYLOAD, {}, networks=LOOPBACK)
    assert posted.error is not None
    assert posted.error.startswith("no connection to 127.0.0.1")
    with receiving() as receiver:
        posted = post(
            receiver.url(NAME),
            PAYLOAD,
            HEADERS,
            networks=LOOPBACK,
            # Nothing listens on the first.
            resolve=lambda _host, _port: ["127.0.0.77", "127.0.0.1"],
        )
    assert posted.is_delivered


def test_a_name_that_leads_inside_is_not_connected_to() -> None:
    with receiving() as receiver:
        for networks in ((), ("10.0.0.0/8",)):
            posted = post(
                receiver.url(NAME).replace("http:", "https:"),
                PAYLOAD,
                HEADERS,
                networks=networks,
                resolve=lambda _host, _port: ["127.0.0.1"],
            )
            assert posted.error is not None
            assert "leads to 127.0.0.1, which is no public address" in posted.error
        assert receiver.num_connections == 0


def test_rebinding_between_check_and_connection_changes_nothing() -> None:
    """The name is looked up once an attempt; what it leads to afterwards is not asked."""
    looked_up = []

    def rebinding(host: str, _port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1"] if len(looked_up) == 1 else ["169.254.169.254"]

    with receiving() as receiver:
        first, second = (
            post(receiver.url(NAME), PAYLOAD, HEADERS, networks=LOOPBACK, resolve=rebinding)
            for _ in range(2)
        )
        assert first.is_delivered
        assert second.error is not None
        assert "169.254.169.254" in second.error
        assert (receiver.num_connections, looked_up) == (1, [NAME, NAME])


def test_tls_is_checked_against_the_name_though_the_address_is_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = certified(tmp_path, NAME)
    with receiving(OK, context=context) as receiver:
        unknown = send(receiver, host=NAME)
        assert unknown.error is not None
        assert "CERTIFICATE_VERIFY_FAILED" in unknown.error
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        webhook_posts._trust.cache_clear()
        assert send(receiver, host=NAME).is_delivered
        other = send(receiver, host="other.example.org")
        assert other.error is not None
        assert "Hostname mismatch" in other.error
        assert len(receiver.received) == 1
        assert receiver.received[0].headers["host"] == f"{NAME}:{receiver.port}"


def test_a_slow_handshake_ends_with_the_time() -> None:
    """A server that accepts and never speaks TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        begun = time.monotonic()
        posted = post(
            f"https://{NAME}:{listener.getsockname()[1]}/",
            PAYLOAD,
            HEADERS,
            networks=LOOPBACK,
            resolve=lambda _host, _port: ["127.0.0.1"],
            total_s=0.4,
        )
        assert time.monotonic() - begun < 2
    assert not posted.is_delivered
