"""A stream that tells how much of it was read, and never closes what it was given."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class TrackedStream(io.RawIOBase):
    """The same bytes; `tell_more` is called with the number of bytes of every read."""

    def __init__(self, stream: BinaryIO, tell_more: Callable[[int], None]) -> None:
        super().__init__()
        self._stream = stream
        self._tell_more = tell_more

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """As what was given must be."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go there."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Where it is."""
        return self._stream.tell()

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill the buffer as far as there is something."""
        view = memoryview(buffer).cast("B")
        found = self._stream.read(len(view))
        view[: len(found)] = found
        self._tell_more(len(found))
        return len(found)
