"""What is given to be read: open streams with their names, and who is told how far it is."""

from collections.abc import Callable
from typing import BinaryIO

from msgspec import Struct

Progress = Callable[[int], None]
"""Called with the bytes that were read so far, of all files."""


class OpenFile(Struct, frozen=True, kw_only=True):
    """A seekable stream of bytes at its start; name, size and SHA-256 are of what arrived.

    A reader is given the stream decompressed; `num_bytes` stays that of the file.
    """

    name: str
    stream: BinaryIO
    num_bytes: int
    sha256: str


def tell_nobody(_: int) -> None:
    """Progress for nobody."""
