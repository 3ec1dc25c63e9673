"""Nesting of JSON, counted before it is parsed: a parser's time grows with its square."""

import re

import numpy as np

DEEPEST = 64
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_IRRELEVANT = bytes(set(range(256)) - set(b'"[]{}'))
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


class Depth:
    """Depth of a JSON text that arrives in chunks."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._ends_escaping = False

    def deepest(self, chunk: bytes) -> int:
        """Largest depth inside this chunk, of objects and lists together."""
        if self._ends_escaping:
            chunk = chunk[1:]
        if b"\\" in chunk:
            chunk = _ESCAPED.sub(b"", chunk)
        self._ends_escaping = chunk.endswith(b"\\")
        marks = np.frombuffer(chunk.translate(None, _IRRELEVANT), np.uint8)
        if not len(marks):
            return self._depth
        is_inside = (np.cumsum(marks == ord('"')) + self._in_string) % 2 == 1
        depths = self._depth + np.cumsum(np.where(is_inside, 0, _STEPS[marks]), dtype=np.int64)
        self._in_string, self._depth = bool(is_inside[-1]), int(depths[-1])
        return int(depths.max())
