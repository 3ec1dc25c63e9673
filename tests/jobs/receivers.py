"""Receivers of webhooks on this machine: real HTTP, plain or with a certificate of a test's own."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import Struct

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LOOPBACK = ("127.0.0.0/8",)


class Received(Struct):
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers each request with the next of `answers`, the last for ever.

    An answer is bytes, or a function that does with the connection what it likes.
    """

    def __init__(
        self,
        answers: list[bytes | Callable[[socket.socket], None]],
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.answers = answers
        self.received: list[Received] = []
        self.num_connections = 0
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def url(self, host: str = "127.0.0.1") -> str:
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://{host}:{self.port}/hook?x=1"

    def close(self) -> None:
        self._closing.set()
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        self._acceptor.join(5)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)

    def wait_or_closing(self, seconds: float) -> bool:
        """For answers that take their time."""
        return self._closing.wait(seconds)

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._closing.is_set():
                connection.close()
                return
            self.num_connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        try:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            self._answer(connection)
        except OSError:
            # What the sender does to it is seen on the sender's side.
            pass
        finally:
            connection.close()

    def _answer(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            part = connection.recv(4096)
            if not part:
                return
            head += part
        top, _, body = head.partition(b"\r\n\r\n")
        line, *fields = top.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (f.split(": ", 1) for f in fields)}
        while len(body) < int(headers.get("content-length", "0")):
            body += connection.recv(4096)
        self.received.append(Received(line=line, headers=headers, body=body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer(connection)
        else:
            connection.sendall(answer)


@contextmanager
def receiving(
    *answers: bytes | Callable[[socket.socket], None], context: ssl.SSLContext | None = None
) -> Iterator[Receiver]:
    """A receiver for the time of the block."""
    receiver = Receiver(list(answers) or [OK], context)
    try:
        yield receiver
    finally:
        receiver.close()


def answer(status: int, *fields: str, body: bytes = b"") -> bytes:
    """The bytes of an answer."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body


def certified(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A file of an authority of one's own, and a server's context with its certificate."""
    now = datetime.now(UTC)

    def made(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )

    authority = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    ca = (
        made("authority", authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority, hashes.SHA256())
    )
    own = (
        made(name, key)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(authority, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    ca_file, chain_file = folder / "authority.pem", folder / "server.pem"
    ca_file.write_bytes(ca.public_bytes(pem))
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain_file.write_bytes(private + own.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain_file)
    return ca_file, context
