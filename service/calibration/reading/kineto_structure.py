"""Where objects and lists of a JSON text begin and end, found before it is parsed.

So events can be cut out of a stream and parsed many at a time, and nesting is known before it costs
anything: a parser's time grows with its square.
"""

import re
from typing import NamedTuple

import numpy as np

from service.calibration.timings import IntArray

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_STEP = np.zeros(256, np.int8)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1
_QUOTE = ord('"')
_IS_MARK = _STEP != 0
_IS_MARK[_QUOTE] = True


class Marks(NamedTuple):
    """Brackets outside of strings: their places in a chunk, +1 or -1, and the depth after each."""

    place: IntArray
    step: IntArray
    depth: IntArray


class Structure:
    """Brackets of a JSON text that arrives in chunks."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._ends_escaping = False

    def marks(self, chunk: bytes) -> Marks:
        """Those of the next chunk."""
        text = b"_" + chunk[1:] if self._ends_escaping else chunk
        if b"\\" in text:
            text = _ESCAPED.sub(b"__", text)
        self._ends_escaping = text.endswith(b"\\")
        codes = np.frombuffer(text, np.uint8)
        places = np.flatnonzero(_IS_MARK[codes])
        codes = codes[places]
        num_quotes = np.cumsum(codes == _QUOTE) + self._in_string
        is_bracket = (codes != _QUOTE) & (num_quotes % 2 == 0)
        steps = _STEP[codes[is_bracket]].astype(np.int64)
        depths = self._depth + np.cumsum(steps)
        if len(codes):
            self._in_string = bool(num_quotes[-1] % 2)
        if len(depths):
            self._depth = int(depths[-1])
        return Marks(places[is_bracket], steps, depths)
