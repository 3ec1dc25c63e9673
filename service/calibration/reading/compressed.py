"""Gzip read as a stream: never more in memory than a block, never more in all than the limits."""

import io
import zlib
from typing import TYPE_CHECKING, BinaryIO, Final

from service.calibration.reading.limits import ReadingLimits
from service.calibration.refusals import TimingsRefusedError, refused

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIP_MAGIC: Final = b"\x1f\x8b"
# Small files may compress to nearly nothing and harm nobody.
_FREE_BYTES: Final = 16 << 20
_IN_BLOCK: Final = 65_536
_OUT_BLOCK: Final = 1 << 20
_WITH_HEADER: Final = 31


class Budget:
    """Decompressed bytes that all files of an upload may still have."""

    def __init__(self, limits: ReadingLimits) -> None:
        self.limits = limits
        self.used = 0


class GunzippedStream(io.RawIOBase):
    """What a gzip file holds; it can be read forwards, and again from the start.

    Raises TimingsRefusedError when the file ends early, is damaged, or holds too much.
    """

    def __init__(self, packed: BinaryIO | io.RawIOBase, name: str, budget: Budget) -> None:
        super().__init__()
        self._packed = packed
        self._name = name
        self._budget = budget
        self._member = zlib.decompressobj(_WITH_HEADER)
        self._pending = b""
        self._ready = memoryview(b"")
        self._position = self._num_out = self._num_in = 0
        self._is_over = False

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """To the start, or to where it is."""
        return True

    def tell(self) -> int:
        """Decompressed bytes that were read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go back to the start, or stay."""
        target = offset + (self._position if whence == io.SEEK_CUR else 0)
        if whence == io.SEEK_END or target not in {0, self._position}:
            raise io.UnsupportedOperation("a gzip file is read forwards")
        if target != self._position:
            self._budget.used -= self._position + len(self._ready)
            self._restart()
        return self._position

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill the buffer as far as there is something."""
        view = memoryview(buffer).cast("B")
        while not self._ready and not self._is_over:
            self._ready = self._decompress()
        taken = min(len(view), len(self._ready))
        view[:taken] = self._ready[:taken]
        self._ready = self._ready[taken:]
        self._position += taken
        return taken

    def _restart(self) -> None:
        self._packed.seek(0)
        self._member = zlib.decompressobj(_WITH_HEADER)
        self._pending = b""
        self._ready = memoryview(b"")
        self._position = self._num_out = self._num_in = 0
        self._is_over = False

    def _decompress(self) -> memoryview:
        if self._member.eof and not self._next_member():
            self._is_over = True
            return memoryview(b"")
        if not self._pending:
            self._pending = self._take()
            if not self._pending:
                raise self._refused("it ends in the middle of the compressed data")
        try:
            found = self._member.decompress(self._pending, _OUT_BLOCK)
        except zlib.error as error:
            raise self._refused(f"the compressed data are damaged ({error})") from None
        self._pending = self._member.unconsumed_tail or self._member.unused_data
        self._count(len(found))
        return memoryview(found)

    def _next_member(self) -> bool:
        """Whether another gzip stream follows in the same file; zeros may fill it up."""
        self._pending = self._pending.lstrip(b"\0")
        while not self._pending:
            taken = self._take()
            if not taken:
                return False
            self._pending = taken.lstrip(b"\0")
        self._member = zlib.decompressobj(_WITH_HEADER)
        return True

    def _take(self) -> bytes:
        taken = self._packed.read(_IN_BLOCK) or b""
        self._num_in += len(taken)
        return taken

    def _count(self, num_bytes: int) -> None:
        limits = self._budget.limits
        self._num_out += num_bytes
        self._budget.used += num_bytes
        if self._budget.used > limits.decompressed_bytes:
            raise refused(
                "file_too_large",
                f"decompressed, the files have over {limits.decompressed_bytes} bytes, which is "
                "the limit",
                file=self._name,
            )
        if self._num_out > max(_FREE_BYTES, limits.compression_ratio * self._num_in):
            raise refused(
                "file_too_large",
                f"{self._num_in} bytes of gzip hold over {self._num_out} bytes, more than "
                f"{limits.compression_ratio} times as many: timings do not compress so well",
                file=self._name,
            )

    def _refused(self, reason: str) -> TimingsRefusedError:
        return refused(
            "unreadable_file",
            f"gzip: {reason}, at byte {self._num_in - len(self._pending)} of the file",
            file=self._name,
        )
