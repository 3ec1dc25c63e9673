"""Names and addresses that would be headers, against a real server: they arrive as they stand."""

import base64
import re
from email import message_from_bytes, policy

import pytest
from msgspec import structs

from service.jobs.mail import HEADERS, Attachment, message_of, send
from service.jobs.mail_headers import HeaderError, checked
from tests.jobs.mailboxes import mail_server
from tests.jobs.test_mail import ADA, BOB, LETTER

BASE = base64.b64encode(
    b"Urgent\r\nContent-Type: text/html\r\nReply-To: evil@x.org\r\n\r\n<h1>Pay here</h1><!--"
).decode()
# Those of a hostile tester first
NAMES = [
    "=?utf-8?b?SGkNCkJjYzogZXZpbEB4Lm9yZw0KUmVwbHktVG86IGV2aWxAeC5vcmc=?= x",
    "=?utf-8?q?Q=0d=0aBcc=3a evil=40x.org?=",
    "=?utf-8?q?Hi=0d=0aBcc=3aevil=40x.org?= fin: 3 GPU-hours",
    f"=?utf-8?b?{BASE}?= x",
    "=?UTF-8?Q?a=0AX=3A_b?=",
    "=?us-ascii?q?a=0d=0aBcc=3ae?= =?us-ascii?q?b?=",
    "a =? b ?= c",
    "=?",
    'x" <evil@x.org>, "y',
    "nightly, Paris; (comment) <evil@x.org>",
    "é" * 190,
    "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe",
    "x" * 200,
    "word " * 30,
    "a\r\n b\vc\x85d\u2028e",
    "",
]


def lines_of(raw: bytes) -> list[str]:
    """Names of the headers as any reader finds them, folded lines joined."""
    head = raw.partition(b"\r\n\r\n")[0].decode("ascii")
    assert "\n" not in head.replace("\r\n", "")
    return [line.partition(":")[0] for line in re.split(r"\r\n(?![ \t])", head)]


EXPECTED = sorted([*HEADERS, "MIME-Version", "Content-Type"])


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_shown_and_makes_no_header(name: str) -> None:
    attachment = Attachment(name=f"{name}.csv", media_type="text/csv", content=b"a")
    letter = structs.replace(LETTER, subject=f"{name}: 3 GPU-hours", attachments=[attachment])
    with mail_server() as box:
        assert send(box.url, letter, [ADA]).accepted == [ADA]
    raw = box.received[0][2]
    assert sorted(lines_of(raw)) == EXPECTED
    assert max(map(len, raw.partition(b"\r\n\r\n")[0].split(b"\r\n"))) <= 200
    message = message_from_bytes(raw, policy=policy.default)
    shown = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", f"{name}: 3 GPU-hours").strip()
    assert message["Subject"] == shown[:200]
    for part in message.walk():
        assert part["Bcc"] is part["Reply-To"] is part["X"] is None
    (file,) = message.iter_attachments()
    assert re.fullmatch(r"[A-Za-z0-9._-]*\.csv", file.get_filename() or "")
    assert message.get_content_type() == "multipart/mixed"
    plain = message.get_body(("plain",))
    assert plain is not None
    assert "Première" in plain.get_content()


@pytest.mark.parametrize(
    "phrase", ["=?utf-8?q?a=0d=0aBcc=3aevil=40x.org?=", '"a, b"', "Équipe", "Trainard"]
)
def test_the_senders_name_is_a_name(phrase: str) -> None:
    letter = structs.replace(LETTER, sender=f"{phrase} <t@example.org>")
    raw = message_of(letter, [ADA]).as_bytes()
    assert sorted(lines_of(raw)) == EXPECTED
    sender = message_from_bytes(raw, policy=policy.default)["From"]
    (address,) = sender.addresses
    assert (address.addr_spec, address.display_name) == ("t@example.org", phrase.strip('"'))


@pytest.mark.parametrize(
    "address",
    [
        "=?utf-8?q?a=0d=0aBcc=3aevil=40x.org?=@b.org",
        "a@b.org\r\nBcc: e@x.org",
        "a@b.org\n",
        "é@b.org",
    ],
)
def test_what_is_no_address_is_not_sent(address: str) -> None:
    with mail_server() as box:
        mailed = send(box.url, LETTER, [address])
        assert mailed.is_permanent
        assert mailed.error is not None
        assert "not be plain text" in mailed.error
        # Beside others it is not in the message, but the server is asked for it by smtplib.
        assert send(box.url, LETTER, [ADA, BOB]).accepted == [ADA, BOB]
    assert len(box.received) == 1


GOOD = message_of(LETTER, [ADA]).as_bytes()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Subject: ", b"Bcc: e@x.org\r\nSubject: "),
        (b"Subject: ", b"Subject: a\r\nSubject: "),
        (b"Subject: ", b"Subject: a\nBcc: e@x.org "),
        (b"Subject: ", b"Subject: a\rBcc: e@x.org "),
        (b"Subject: ", b"Subject: a\r\nno header "),
        (b"Subject: ", b"Subject: \0"),
        (b"Subject: ", b"Subject: a\r\n \r\n"),
        (b"List-Id: ", b"List-Other: "),
        (b"Content-Disposition: ", b"X-Other: a\r\nContent-Disposition: "),
        (GOOD, b"Subject: only"),
    ],
)
def test_bytes_with_another_header_are_not_sent(old: bytes, new: bytes) -> None:
    assert checked(GOOD, HEADERS) == GOOD
    assert old in GOOD
    with pytest.raises(HeaderError):
        checked(GOOD.replace(old, new, 1), HEADERS)
