"""Mail against a real server: what arrives, and what is made of each refusal."""

import socket
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from service.jobs.mail import Attachment, Letter, Mailed, message_of, send
from tests.jobs.mailboxes import Mailbox, mail_server
from tests.jobs.receivers import certified

LETTER = Letter(
    message_id="msg_0199",
    sent_at=datetime(2026, 12, 1, 2, 30, tzinfo=UTC),
    sender="Trainard <trainard@example.org>",
    list_slug="nightly",
    subject="Nightly: 176\N{NO-BREAK SPACE}008 heures-GPU — coût",
    text="Première ligne\n.\nDernière\n",
    html="<p>Première ligne</p>\n",
    attachments=[
        Attachment(
            name="a.csv", media_type="text/csv; charset=utf-8", content=b"a,b\r\n1,\xc3\xa9"
        ),
        Attachment(name="a.parquet", media_type="application/x-parquet", content=b"PAR1\0\r\n\xff"),
    ],
)
ADA, BOB = "ada@example.org", "bob@example.net"


def test_a_message_arrives_whole() -> None:
    with mail_server() as box:
        assert send(box.url, LETTER, [ADA]) == Mailed(accepted=[ADA], status=250)
    (sender, recipients, raw) = box.received[0]
    assert (sender, recipients) == ("trainard@example.org", [ADA])
    # Seven bits and short lines: the way may be old.
    assert raw.isascii()
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    (message,) = box.messages
    shown = {name: message[name] for name in ("From", "To", "Subject", "Message-ID", "Date")}
    assert shown == {
        "From": "Trainard <trainard@example.org>",
        "To": ADA,
        "Subject": LETTER.subject,
        "Message-ID": "<msg_0199@example.org>",
        "Date": "Tue, 01 Dec 2026 02:30:00 +0000",
    }
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["List-Id"] == "<nightly.example.org>"
    assert message.get_content_type() == "multipart/mixed"
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    assert plain is not None
    assert html is not None
    assert plain.get_content().replace("\r\n", "\n") == LETTER.text
    assert html.get_content().replace("\r\n", "\n") == LETTER.html
    files = [
        (part.get_filename(), part.get_content_type(), part.get_payload(decode=True))
        for part in message.iter_attachments()
    ]
    assert files == [
        ("a.csv", "text/csv", b"a,b\r\n1,\xc3\xa9"),
        ("a.parquet", "application/x-parquet", b"PAR1\0\r\n\xff"),
    ]


def test_several_recipients_do_not_learn_of_each_other() -> None:
    with mail_server() as box:
        assert send(box.url, LETTER, [ADA, BOB]).accepted == [ADA, BOB]
    assert box.envelopes == [[ADA, BOB]]
    raw = box.received[0][2]
    assert b"undisclosed-recipients:;" in raw
    assert ADA.encode() not in raw
    assert BOB.encode() not in raw


@pytest.mark.parametrize("ending", ["\r\nBcc: evil@example.org", "\nBcc: evil@example.org", "\0x"])
def test_no_header_is_injected(ending: str) -> None:
    letter = structs.replace(LETTER, subject=f"x{ending}")
    message = message_of(letter, [ADA])
    assert message["Bcc"] is None
    raw = message.as_bytes()
    assert b"\nBcc:" not in raw.partition(b"\r\n\r\n")[0]
    assert b"\0" not in raw
    with mail_server() as box:
        assert send(box.url, letter, [ADA]).accepted == [ADA]
    assert box.envelopes == [[ADA]]


def test_a_recipient_refused_for_now_is_neither_accepted_nor_refused() -> None:
    with mail_server() as box:
        box.replies = {BOB: ["451 greylisted"], "gone@example.org": ["550 no such user"]}
        mailed = send(box.url, LETTER, [ADA, BOB, "gone@example.org"])
        assert mailed.accepted == [ADA]
        assert mailed.refused == {"gone@example.org": "550 no such user"}
        assert mailed.error == "gone@example.org: 550 no such user; bob@example.net: 451 greylisted"
        assert not mailed.is_permanent
        # Later it is taken, under the same id.
        assert send(box.url, LETTER, [BOB]).accepted == [BOB]
    assert box.envelopes == [[ADA], [BOB]]
    assert [message["Message-ID"] for message in box.messages] == ["<msg_0199@example.org>"] * 2


def test_when_all_are_refused_for_ever_nothing_is_tried_again() -> None:
    with mail_server() as box:
        box.replies = {ADA: ["550 no such user"] * 2, BOB: ["553 never", "451 later"]}
        mailed = send(box.url, LETTER, [ADA, BOB])
        assert (mailed.accepted, mailed.is_permanent) == ([], True)
        assert mailed.refused == {ADA: "550 no such user", BOB: "553 never"}
        mailed = send(box.url, LETTER, [ADA, BOB])
        assert (list(mailed.refused), mailed.is_permanent) == ([ADA], False)
    assert box.received == []


def test_a_refused_message_is_tried_again_only_when_it_is_for_now() -> None:
    with mail_server() as box:
        box.data_replies = ["452 disk full", "554 looks like spam"]
        mailed = send(box.url, LETTER, [ADA])
        assert (mailed.status, mailed.is_permanent, mailed.error) == (452, False, "452 disk full")
        mailed = send(box.url, LETTER, [ADA])
        assert (mailed.status, mailed.is_permanent) == (554, True)
        assert mailed.accepted == []
        box.mail_reply = "550 who are you"
        mailed = send(box.url, LETTER, [ADA])
        assert (mailed.error, mailed.is_permanent) == ("550 who are you", True)
        box.mail_reply = "421 too busy"
        assert not send(box.url, LETTER, [ADA]).is_permanent


def test_a_message_too_big_for_the_server_goes_without_its_files() -> None:
    big = structs.replace(
        LETTER,
        attachments=[Attachment(name="a.csv", media_type="text/csv", content=b"1\r\n" * 20_000)],
    )
    small = structs.replace(LETTER, text="It was too big.", attachments=())
    # It says how much it takes (RFC 1870), and refuses more before it is sent.
    with mail_server(max_bytes=50_000) as box:
        mailed = send(box.url, big, [ADA])
        assert (mailed.status, mailed.is_permanent, mailed.is_too_big) == (552, True, True)
        box.replies = {BOB: ["550 no such user"]}
        mailed = send(box.url, big, [ADA, BOB], smaller=small)
        assert (mailed.accepted, mailed.refused) == ([ADA], {BOB: "550 no such user"})
        # Nothing is smaller than what is small already.
        box.mail_reply = "552 still too big"
        mailed = send(box.url, big, [ADA], smaller=small)
        assert (mailed.accepted, mailed.error) == ([], "552 still too big")
    # Or only once it has all of it.
    with mail_server() as other:
        other.data_replies = ["552 5.3.4 too big"]
        assert send(other.url, big, [ADA], smaller=small).accepted == [ADA]
        # A mailbox that is full is full for all of it.
        other.replies = {ADA: ["552 mailbox full"]}
        mailed = send(other.url, big, [ADA], smaller=small)
        assert (mailed.accepted, mailed.refused) == ([], {ADA: "552 mailbox full"})
    for message in (*box.messages, *other.messages):
        assert list(message.iter_attachments()) == []
        body = message.get_body(("plain",))
        assert body is not None
        assert body.get_content().strip() == "It was too big."
        assert message["Message-ID"] == "<msg_0199@example.org>"
    assert (len(box.received), len(other.received)) == (1, 1)


def test_a_server_that_is_away_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    mailed = send(f"smtp+plain://127.0.0.1:{port}", LETTER, [ADA])
    assert mailed.error == "the mail server cannot be used: Connection refused"
    assert (mailed.accepted, mailed.is_permanent) == ([], False)


def test_a_server_that_drips_ends_with_the_time() -> None:
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                while not stop.wait(0.02):
                    connection.sendall(b"220-wait\r\n")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        begun = time.monotonic()
        port = listener.getsockname()[1]
        mailed = send(f"smtp+plain://127.0.0.1:{port}", LETTER, [ADA], total_s=0.4)
        assert time.monotonic() - begun < 3
        stop.set()
        thread.join()
    assert mailed.error is not None
    assert not mailed.is_permanent


def over_tls(box: Mailbox, scheme: str, login: str = "") -> str:
    return box.url.replace("smtp+plain://127.0.0.1", f"{scheme}://{login}localhost")


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_tls_is_demanded_and_its_certificate_checked(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = certified(tmp_path, "localhost")
    with mail_server(context, at_once=scheme == "smtps", auth=True) as box:
        url = over_tls(box, scheme, "mailer%40example.org:s3%20cret%2F@")
        unknown = send(url, LETTER, [ADA])
        assert unknown.error is not None
        assert "certificate verify failed" in unknown.error
        assert box.logins == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert send(url, LETTER, [ADA]).accepted == [ADA]
        assert box.logins == [(b"mailer@example.org", b"s3 cret/")]
        wrong = send(over_tls(box, scheme, "mailer:wrong@"), LETTER, [ADA])
        # Somebody may mend the password.
        assert (wrong.status, wrong.is_permanent) == (535, False)
        assert "wrong" not in (wrong.error or "")
        by_address = url.replace("localhost", "127.0.0.1")
        mismatch = send(by_address, LETTER, [ADA])
        assert "certificate" in (mismatch.error or "")
    assert len(box.received) == 1


def test_without_the_servers_starttls_nothing_is_said() -> None:
    with mail_server() as box:
        mailed = send(over_tls(box, "smtp"), LETTER, [ADA])
    assert "STARTTLS" in (mailed.error or "")
    assert box.received == []
