"""Mail: messages that say what they are, sent by SMTP with TLS, and who has taken them.

By the standard library's `smtplib`: it runs in a thread of the courier.
"""

import email.policy
import email.utils
import os
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from email.message import EmailMessage
from typing import Final
from urllib.parse import unquote, urlsplit

import certifi
from msgspec import Struct

from service.jobs.mail_headers import (
    HeaderError,
    checked,
    file_name,
    one_line,
    put_mailbox,
    put_text,
    put_token,
)
from service.jobs.reason_sentences import say

SOCKET_S: Final = 15.0
TOTAL_S: Final = 120.0
DEFAULT_PORTS: Final = {"smtp": 587, "smtps": 465, "smtp+plain": 25}
MAX_SUBJECT_LENGTH: Final = 200
MAX_REPLY_LENGTH: Final = 200
# RFC 5321: the first digit of a refusal for ever
PERMANENT: Final = 500
# RFC 1870: of a message with more bytes than the server takes
TOO_BIG: Final = 552
HEADERS: Final = (
    *("From", "To", "Subject", "Date", "Message-ID"),
    *("Auto-Submitted", "X-Auto-Response-Suppress", "List-Id"),
)


class Attachment(Struct, frozen=True, kw_only=True):
    """A file of a message."""

    name: str
    media_type: str
    content: bytes


class Letter(Struct, frozen=True, kw_only=True):
    """What is sent: `message_id` makes its Message-ID, so that a repetition is the same message."""

    message_id: str
    sent_at: datetime
    sender: str
    list_slug: str
    subject: str
    text: str
    html: str | None
    attachments: Sequence[Attachment] = ()


class Mailed(Struct, frozen=True, kw_only=True):
    """What came of one attempt.

    `refused` are recipients that the server does not take, for ever; those in neither are tried
    again. `error` says why not all have it, `is_permanent` that no repetition would help,
    `is_too_big` that a smaller message might be taken.
    """

    accepted: list[str] = []
    refused: dict[str, str] = {}
    error: str | None = None
    status: int | None = None
    is_permanent: bool = False
    is_too_big: bool = False


def message_of(letter: Letter, to: Sequence[str]) -> EmailMessage:
    """The message; to one recipient by name, to several without telling them of each other."""
    # Seven bits: not every server on the way says that it takes eight.
    message = EmailMessage(policy=email.policy.SMTP.clone(cte_type="7bit"))
    phrase, address = email.utils.parseaddr(letter.sender)
    domain = address.rpartition("@")[2]
    put_mailbox(message, "From", phrase, address)
    put_token(message, "To", to[0] if len(to) == 1 else "undisclosed-recipients:;")
    put_text(message, "Subject", one_line(letter.subject)[:MAX_SUBJECT_LENGTH])
    put_token(message, "Date", email.utils.format_datetime(letter.sent_at))
    put_token(message, "Message-ID", f"<{letter.message_id}@{domain}>")
    # So that no machine answers it, and people can sort it.
    put_token(message, "Auto-Submitted", "auto-generated")
    put_token(message, "X-Auto-Response-Suppress", "All")
    put_token(message, "List-Id", f"<{letter.list_slug}.{domain}>")
    message.set_content(letter.text)
    if letter.html is not None:
        message.add_alternative(letter.html, subtype="html")
    for attachment in letter.attachments:
        kind, _, subtype = attachment.media_type.partition(";")[0].partition("/")
        message.add_attachment(
            attachment.content,
            maintype=kind,
            subtype=subtype,
            filename=file_name(attachment.name),
            params={"charset": "utf-8"} if kind == "text" else None,
        )
    return message


def send(
    url: str,
    letter: Letter,
    to: Sequence[str],
    *,
    smaller: Letter | None = None,
    total_s: float = TOTAL_S,
) -> Mailed:
    """Give the message to the server once, for all recipients; says who has it, raises nothing.

    Where it is too big for the server, the `smaller` one goes in its place.
    """
    client: _Client | None = None
    try:
        messages = [message_of(one, to) for one in (letter, smaller) if one is not None]
        name = email.utils.parseaddr(letter.sender)[1].rpartition("@")[2]
        client = _connected(url, name, time.monotonic() + total_s)
        return _fitting(client, letter, messages, to)
    except smtplib.SMTPDataError as error:
        reply = _reply(error.smtp_code, error.smtp_error)
        is_permanent = error.smtp_code >= PERMANENT
        return Mailed(error=reply, status=error.smtp_code, is_permanent=is_permanent)
    except smtplib.SMTPResponseException as error:
        # The server as a whole refuses: its set-up may be mended, so that it is tried again.
        return Mailed(error=_reply(error.smtp_code, error.smtp_error), status=error.smtp_code)
    except HeaderError as error:
        return Mailed(error=say("mail_not_sent", detail=error), is_permanent=True)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        return Mailed(error=_sentence(error))
    finally:
        if client is not None:
            with suppress(OSError, smtplib.SMTPException):
                client.close()


class _Client(smtplib.SMTP):
    """Ends when its time is over, also with a server that answers byte by byte."""

    end = float("inf")
    _timer: threading.Timer | None = None
    _copy: socket.socket | None = None

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """As smtplib, which calls it; the timeouts of a socket begin anew with every byte."""
        opened = super()._get_socket(host, port, timeout)  # type: ignore[misc]
        # A copy: TLS takes the socket itself over.
        self._copy = socket.socket(fileno=os.dup(opened.fileno()))
        self._timer = threading.Timer(max(0.0, self.end - time.monotonic()), self._stop)
        self._timer.daemon = True
        self._timer.start()
        found: socket.socket = opened
        return found

    def _stop(self) -> None:
        if self._copy is not None:
            with suppress(OSError):
                self._copy.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the session and its time."""
        super().close()
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join()
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.close()


class _TlsClient(_Client, smtplib.SMTP_SSL):
    """The same over TLS from the first byte."""


def _connected(url: str, name: str, end: float) -> _Client:
    """A session with the server; `name` is whom we say we are: a look-up of our own may hang."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    client: _Client
    if parts.scheme == "smtps":
        client = _TlsClient(local_hostname=name, timeout=SOCKET_S, context=_trust())
    else:
        client = _Client(local_hostname=name, timeout=SOCKET_S)
    client.end = end
    # smtplib checks the certificate against this name.
    client._host = host  # type: ignore[attr-defined] # noqa: SLF001 - only its constructor sets it
    try:
        _require_ready(*client.connect(host, port))
        client.ehlo_or_helo_if_needed()
        if parts.scheme == "smtp":
            # Without TLS it goes nowhere: the server must offer it.
            client.starttls(context=_trust())
            client.ehlo()
        if parts.username:
            client.login(unquote(parts.username), unquote(parts.password or ""))
    except BaseException:
        client.close()
        raise
    return client


def _require_ready(code: int, reply: bytes) -> None:
    if code != 220:
        raise smtplib.SMTPConnectError(code, reply)


def _fitting(
    client: _Client, letter: Letter, messages: Sequence[EmailMessage], to: Sequence[str]
) -> Mailed:
    """Hand over the first that is not too big."""
    mailed = _given(client, letter, messages[0], to)
    for message in messages[1:]:
        if mailed.is_too_big:
            client.rset()
            mailed = _given(client, letter, message, to)
    return mailed


def _given(client: _Client, letter: Letter, message: EmailMessage, to: Sequence[str]) -> Mailed:
    """Hand the message over; a recipient that is refused for now is tried again."""
    sender = email.utils.parseaddr(letter.sender)[1]
    content = checked(message.as_bytes(), HEADERS)
    code, reply = client.mail(sender, [f"size={len(content)}"] if client.has_extn("size") else [])
    if code != 250:
        return Mailed(
            error=_reply(code, reply),
            status=code,
            is_permanent=code >= PERMANENT and code != 530,
            is_too_big=code == TOO_BIG,
        )
    accepted, refused, later = list[str](), dict[str, str](), list[str]()
    for address in to:
        code, reply = client.rcpt(address)
        if code in {250, 251}:
            accepted.append(address)
        elif code >= PERMANENT:
            refused[address] = _reply(code, reply)
        else:
            later.append(f"{address}: {_reply(code, reply)}")
    told = [*(f"{address}: {reason}" for address, reason in refused.items()), *later]
    if not accepted:
        return Mailed(refused=refused, error="; ".join(told), status=code, is_permanent=not later)
    code, reply = client.data(content)
    if code != 250:
        return Mailed(
            refused=refused,
            error=_reply(code, reply),
            status=code,
            is_permanent=code >= PERMANENT,
            is_too_big=code == TOO_BIG,
        )
    # It has the message: whatever comes now changes nothing.
    with suppress(OSError, smtplib.SMTPException):
        client.quit()
    return Mailed(accepted=accepted, refused=refused, error="; ".join(told) or None, status=code)


def _trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _reply(code: int, reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return f"{code} {one_line(text)}"[:MAX_REPLY_LENGTH]


def _sentence(error: Exception) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return say("mail_unusable", detail=one_line(text) or type(error).__name__)[:400]
