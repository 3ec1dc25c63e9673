"""A Chrome trace as batches of events, each the text of a JSON list: one is held at a time.

The events are cut out of the stream; what is left, the frame with `null` in place of every batch,
goes through ijson, which says where `traceEvents` begins, what stands in `distributedInfo` wherever
that is, and whether the whole is JSON. The batches' own text is checked by whoever decodes them.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import ijson
import numpy as np

from service.calibration.reading.kineto_structure import Marks, Structure
from service.calibration.refusals import TimingsRefusedError, refused

CHUNK_BYTES: Final = 1 << 18
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# An event has a few hundred bytes, with stacks and shapes a few thousand.
LARGEST_EVENT_BYTES: Final = 4 << 20
# Devices, process groups and the log of the profiler have some ten thousand.
LARGEST_FRAME_BYTES: Final = 8 << 20
DEEPEST: Final = 64
_EXPECTED = frozenset({"null", "start_map", "map_key"})
_BETWEEN = re.compile(rb"[\s,]*")


class EventStream:
    """Batches of the events of one open decompressed stream; a list of events alone is one too.

    Raises `TimingsRefusedError` for what is no JSON, breaks off, nests too deep, or holds too much
    at once. `information` is `distributedInfo` once all batches were taken.
    """

    def __init__(self, file: str, stream: BinaryIO, tell: Callable[[int], None]) -> None:
        self._file = file
        self._stream = stream
        self._tell = tell
        self._frame: Any = ijson.sendable_list()
        self._about: Any = ijson.sendable_list()
        self._parsers = (
            ijson.parse_coro(self._frame, use_float=True),
            ijson.items_coro(self._about, "distributedInfo", use_float=True),
        )
        self._num_frame_bytes = 0
        self._in_events = False
        self._list_depth, self._list_name = 2, "traceEvents"
        self._held = b""

    @property
    def information(self) -> Any:
        """What stands in `distributedInfo`; None without it."""
        return self._about[0] if self._about else None

    def batches(self) -> Iterator[bytes]:
        """Texts of JSON lists of events, in the order of the file."""
        structure = Structure()
        chunk = self._stream.read(CHUNK_BYTES).removeprefix(BYTE_ORDER_MARK)
        if chunk.lstrip()[:1] == b"[":
            self._list_depth, self._list_name = 1, ""
        while chunk:
            self._tell(len(chunk))
            marks = structure.marks(chunk)
            deepest = int(marks.depth.max(initial=0))
            if deepest > DEEPEST:
                raise self._unreadable(f"nested {deepest} deep: no trace nests beyond {DEEPEST}")
            yield from self._cut(chunk, marks)
            chunk = self._stream.read(CHUNK_BYTES)
        self._send(self._held)
        try:
            self._parsers[0].close()
        except ijson.JSONError as error:
            raise self._broken(error) from error

    def _cut(self, chunk: bytes, marks: Marks) -> Iterator[bytes]:
        """The batch of a chunk, or batches where lists of events begin and end in it."""
        opens = marks.place[(marks.step > 0) & (marks.depth == self._list_depth)]
        closes = marks.place[marks.step < 0]
        ends = marks.place[(marks.step < 0) & (marks.depth == self._list_depth - 1)]
        elements = closes[marks.depth[marks.step < 0] == self._list_depth]
        at = 0
        while at < len(chunk):
            if not self._in_events:
                at = self._skip(chunk, at, opens)
                continue
            end = _first(ends, at, len(chunk))
            last = int(np.searchsorted(elements, end)) - 1
            if last >= 0 and elements[last] >= at:
                after = int(elements[last]) + 1
                yield self._batch(self._held + chunk[at:after])
                self._held, at = b"", after
            self._held += chunk[at : end + 1]
            at = end + 1
            if end < len(chunk):
                self._send(self._held)
                self._held, self._in_events = b"", False
            elif len(self._held) > LARGEST_EVENT_BYTES:
                raise self._unreadable(
                    f"{len(self._held)} bytes without the end of an event: at most "
                    f"{LARGEST_EVENT_BYTES} are read at once"
                )

    def _skip(self, chunk: bytes, at: int, opens: Any) -> int:
        """Send the frame up to the next list that may be that of the events, or to the end."""
        place = _first(opens, at, len(chunk))
        self._send(chunk[at : place + 1])
        self._in_events = place < len(chunk) and self._last == (self._list_name, "start_array")
        return place + 1

    def _batch(self, text: bytes) -> bytes:
        """The list of the events in the text, whose place in the frame is taken by a null."""
        between = _BETWEEN.match(text)
        start = between.end() if between else 0
        self._send(text[:start] + b"null")
        return b"[" + text[start:] + b"]"

    def _send(self, text: bytes) -> None:
        # To the parsers nothing means the end
        if not text:
            return
        self._num_frame_bytes += len(text)
        if self._num_frame_bytes > LARGEST_FRAME_BYTES:
            raise self._unreadable(
                f"more than {LARGEST_FRAME_BYTES} bytes beside the events: that is no trace"
            )
        try:
            for parser in self._parsers:
                parser.send(text)
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise self._broken(error) from error
        item = f"{self._list_name}.item".removeprefix(".")
        # Objects were cut out; one of which only the beginning is there breaks off
        if any(prefix == item and event not in _EXPECTED for prefix, event, _ in self._frame):
            raise refused("bad_value", "an entry of traceEvents is no object", file=self._file)
        self._last = self._frame[-1][:2] if self._frame else None
        self._frame.clear()

    def _broken(self, error: Exception) -> TimingsRefusedError:
        first_line = str(error).split("\n", 1)[0].strip()[:120]
        return self._unreadable(f"the JSON breaks off or is broken ({first_line})")

    def _unreadable(self, reason: str) -> TimingsRefusedError:
        return refused("unreadable_file", reason, file=self._file)


def _first(places: Any, at: int, otherwise: int) -> int:
    """The first of ascending places from `at` on."""
    index = int(np.searchsorted(places, at))
    return int(places[index]) if index < len(places) else otherwise
