"""Headers of mail as literal text: what a name says is shown, and never read as a header.

The library reads `=?utf-8?b?…?=` in a text as an encoded word, decodes it, and writes what it has
found: a name could bring line ends, and headers after them. Here a text is encoded as it stands, or
stands as it is where nothing in it means anything. The bytes that come of it are looked at once
more before they are sent (`checked`).
"""

import email
import email.policy
import re
from collections.abc import Collection
from email.header import Header
from email.message import EmailMessage
from typing import Final

# What no reader of headers takes for anything but itself
_PLAIN: Final = re.compile(r"[A-Za-z0-9 .,:;()/+%_&\-]{0,200}", re.ASCII)
_PHRASE: Final = re.compile(r"[A-Za-z0-9 _-]{0,60}", re.ASCII)
_TOKEN: Final = re.compile(r"[\x21-\x7e]+( [\x21-\x7e]+)*", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_FILE_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")
_FIELD: Final = re.compile(rb"([!-9;-~]+):( |\Z)")
_OF_PARTS: Final = frozenset(
    ("content-type", "content-transfer-encoding", "content-disposition", "mime-version")
)
MAX_PLAIN_LINE: Final = 76


class HeaderError(ValueError):
    """A message whose headers are not those that were meant; it is not sent."""


class _Literal(str):
    """A value whose bytes are given: the library takes it for one of its own headers."""

    __slots__ = ("encoded", "name")
    name: str
    encoded: str

    def fold(self, *, policy: email.policy.EmailPolicy) -> str:
        """The lines of the header."""
        return f"{self.name}: {self.encoded}{policy.linesep}"


def one_line(text: str) -> str:
    """The text without control characters and line ends of any kind."""
    return _CONTROL.sub(" ", text).strip()


def put_text(message: EmailMessage, name: str, text: str) -> None:
    """Set a header that people read."""
    shown = one_line(text)
    is_short = len(name) + 2 + len(shown) <= MAX_PLAIN_LINE
    is_plain = is_short and _PLAIN.fullmatch(shown) is not None
    _put(message, name, shown, shown if is_plain else _encoded(shown, name))


def put_mailbox(message: EmailMessage, name: str, phrase: str, address: str) -> None:
    """Set a header of one address, with the name of its owner before it if there is one."""
    _require_token(name, address)
    shown = one_line(phrase)
    spoken = shown if _PHRASE.fullmatch(shown) else _encoded(shown, name)
    value = f"{spoken} <{address}>" if shown else address
    _put(message, name, f"{shown} <{address}>" if shown else address, value)


def put_token(message: EmailMessage, name: str, value: str) -> None:
    """Set a header that programs read: printable ASCII, and no encoded word."""
    _require_token(name, value)
    _put(message, name, value, value)


def file_name(name: str) -> str:
    """The name of an attachment, of letters, digits, `.`, `_` and `-`."""
    return _FILE_NAME.sub("_", name)


def checked(content: bytes, names: Collection[str]) -> bytes:
    """The message, if its headers are these and MIME's, each once, and its parts have no others.

    Raises `HeaderError`: then something has put a line where a value was meant.
    """
    head, end, _ = content.partition(b"\r\n\r\n")
    found: list[str] = []
    for line in head.split(b"\r\n"):
        if b"\r" in line or b"\n" in line or b"\0" in line or not end:
            raise HeaderError("a header of the message has a line end in it")
        if line[:1] in {b" ", b"\t"} and found and line.strip():
            continue
        field = _FIELD.match(line)
        if field is None:
            raise HeaderError("a line among the headers of the message is no header")
        found.append(field[1].decode().lower())
    expected = {name.lower() for name in names}
    if len(found) != len({*found}) or not expected <= {*found} <= expected | _OF_PARTS:
        raise HeaderError("the message has other headers than it should have")
    parts = email.message_from_bytes(content).walk()
    next(parts)
    for part in parts:
        if not {name.lower() for name in part.keys()} <= _OF_PARTS:  # noqa: SIM118 - no mapping
            raise HeaderError("a part of the message has other headers than it should have")
    return content


def _put(message: EmailMessage, name: str, shown: str, encoded: str) -> None:
    literal = _Literal(shown)
    literal.name, literal.encoded = name, encoded
    message[name] = literal


def _encoded(text: str, name: str) -> str:
    return Header(text, "utf-8", header_name=name).encode(linesep="\r\n")


def _require_token(name: str, value: str) -> None:
    if _TOKEN.fullmatch(value) is None or "=?" in value:
        # Not shown: it goes into logs.
        raise HeaderError(f"the header {name} of the message would not be plain text")
