"""Text read by blocks of whole lines, and which line a row stands on."""

from collections.abc import Iterator
from typing import Final

from service.calibration.reading.open_file import OpenFile
from service.calibration.refusals import refused

BOM: Final = b"\xef\xbb\xbf"
BLOCK_BYTES: Final = 4 << 20
MAX_LINE_BYTES: Final = 1 << 20


def blocks(file: OpenFile) -> Iterator[bytes]:
    """The text in blocks that end with a line, without a byte order mark.

    Raises TimingsRefusedError where a line is longer than a table's can be.
    """
    file.stream.seek(0)
    rest = file.stream.read(len(BOM)).removeprefix(BOM)
    while read := file.stream.read(BLOCK_BYTES):
        text, newline, after = read.rpartition(b"\n")
        if newline:
            yield rest + text + newline
            rest = after
        else:
            rest += after
        if len(rest) > MAX_LINE_BYTES:
            raise refused(
                "unreadable_file",
                f"a line has over {MAX_LINE_BYTES} bytes; this is no table",
                file=file.name,
            )
    if rest:
        yield rest


def line_of_text(file: OpenFile, place: int) -> int:
    """The line, counted from 1, on which the line with text of this place, from 0, stands."""
    file.stream.seek(0)
    with_text = number = 0
    while line := file.stream.readline(MAX_LINE_BYTES):
        number += 1
        with_text += bool(line.strip())
        if with_text > place:
            break
    return number
