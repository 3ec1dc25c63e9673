"""A real SMTP server on this machine that answers as a test says."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword
from msgspec import Struct, field


class Mailbox(Struct):
    """What came, and what is answered: replies by recipient, and to the message itself."""

    replies: dict[str, list[str]] = field(default_factory=dict)
    data_replies: list[str] = field(default_factory=list)
    mail_reply: str | None = None
    received: list[tuple[str, list[str], bytes]] = field(default_factory=list)
    logins: list[tuple[bytes, bytes]] = field(default_factory=list)
    url: str = ""

    @property
    def messages(self) -> list[EmailMessage]:
        return [
            message_from_bytes(content, policy=policy.default) for _, _, content in self.received
        ]

    @property
    def envelopes(self) -> list[list[str]]:
        return [recipients for _, recipients, _ in self.received]

    async def handle_MAIL(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if self.mail_reply is not None:
            return self.mail_reply
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        waiting = self.replies.get(address)
        if waiting:
            reply = waiting.pop(0)
            if not reply.startswith("250"):
                return reply
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802
        if self.data_replies:
            reply = self.data_replies.pop(0)
            if not reply.startswith("250"):
                return reply
        content = envelope.original_content or b""
        self.received.append((envelope.mail_from or "", list(envelope.rcpt_tos), content))
        return "250 queued"

    def authenticate(
        self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: LoginPassword
    ) -> AuthResult:
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"s3 cret/", handled=False)


@contextmanager
def mail_server(
    context: ssl.SSLContext | None = None,
    *,
    at_once: bool = False,
    auth: bool = False,
    max_bytes: int = 32 * 2**20,
) -> Iterator[Mailbox]:
    """A server: plain, with STARTTLS demanded, or with TLS from the first byte."""
    box = Mailbox()
    options: dict[str, Any] = {"data_size_limit": max_bytes}
    if context is not None and not at_once:
        options |= {"tls_context": context, "require_starttls": True}
    if auth:
        options |= {
            "authenticator": box.authenticate,
            # It does not see the TLS that was there before it, and would warn.
            "auth_required": not at_once,
            "auth_require_tls": not at_once,
        }
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    controller = Controller(
        box,
        hostname="127.0.0.1",
        port=port,
        ssl_context=context if at_once else None,
        server_hostname="localhost",
        **options,
    )
    controller.start()
    try:
        box.url = f"smtp+plain://127.0.0.1:{port}"
        yield box
    finally:
        controller.stop()
