"""The values of one input among which an answer is looked for, and what ends them."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.model.questions.moved_columns import Number

COARSE, COARSE_LONG = 33, 17
"""Values of the first look; between two neighbours of it the answer is looked for."""
INSIDE, INSIDE_LONG = 31, 3
"""Values of each look after it: the gap falls to a 32nd. Where a value takes far longer than the
look itself, few at a time are fewer in all."""
SMALLEST_SHARE = 1e-12
"""Of the greatest value: where a range of real numbers begins at 0, the first look's next one."""
NOTHING_SHARE = 1e-21
"""Of the greatest value: a smaller one beside 0 is not told from it."""
WIDE = 4.0
"""Ratio of the ends from which on values are spaced by their logarithms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Why no value beyond the end of a range was tried: a bound, or the rule broken there."""

    value: Number
    code: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Values of the input at `path` from `lowest` to `highest`, both of which can be computed.

    step    between whole numbers; 0: real numbers
    listed  (values,) the only ones that can be computed, ascending; None: all of the step
    own     the scenario's own value where it is among them
    below, above  what lies beyond the ends
    takes_long  whether a result takes longer than a look does
    """

    path: str
    lowest: Number
    highest: Number
    step: int
    below: End
    above: End
    takes_long: bool = False
    listed: NDArray[np.int64] | None = None
    own: Number | None = None

    def first_look(self) -> list[Number]:
        """The values of the coarse look, ascending."""
        most = (COARSE_LONG if self.takes_long else COARSE) - 2
        values = {self.lowest, self.highest, *self._between(self.lowest, self.highest, most)}
        return sorted(values if self.own is None else values | {self.own})

    def between(self, low: Number, high: Number) -> list[Number]:
        """Values strictly between two of them, ascending; none where there is no other."""
        return self._between(low, high, INSIDE_LONG if self.takes_long else INSIDE)

    def looks(self, tolerance: float) -> int:
        """How many looks after the first may follow, where each takes long."""
        num = self.highest - self.lowest if self.step else 1 / tolerance
        return math.ceil(math.log(max(num, 1.0), 1 + INSIDE_LONG))

    def is_narrow(self, low: Number, high: Number, tolerance: float) -> bool:
        """Whether no value between need be looked at."""
        if self.step:
            return not self._between(low, high, 1)
        if low == 0:
            return high <= NOTHING_SHARE * self.highest
        return high - low <= tolerance * high

    def _between(self, low: Number, high: Number, most: int) -> list[Number]:
        if self.listed is not None:
            first, after = np.searchsorted(self.listed, [low + 1, high])
            places = _whole_between(int(first) - 1, int(after), most)
            return [int(self.listed[place]) for place in places]
        if self.step:
            first, last = int(low) // self.step, int(high) // self.step
            return [place * self.step for place in _whole_between(first, last, most)]
        return _real_between(float(low), float(high), most, SMALLEST_SHARE * self.highest)


def _spaced(low: float, high: float, num: int) -> NDArray[np.float64]:
    """`num` values inside of the ends, by their logarithms where these are far apart; low >= 0."""
    if low > 0 and high > WIDE * low:
        return np.geomspace(low, high, num + 2)[1:-1]
    return np.linspace(low, high, num + 2)[1:-1]


def _whole_between(low: int, high: int, most: int) -> list[int]:
    if high - low - 1 <= most:
        return list(range(low + 1, high))
    # From 0 on the logarithms are those of 1, 2, …
    offset = 1 if low == 0 else 0
    values = np.rint(_spaced(low + offset, high + offset, most)).astype(np.int64) - offset
    return [value for value in np.unique(values).tolist() if low < value < high]


def _real_between(low: float, high: float, most: int, smallest: float) -> list[Number]:
    if low == 0 and high > smallest:
        values = [smallest, *_spaced(smallest, high, most - 1).tolist()]
    else:
        values = _spaced(low, high, most).tolist()
    return [value for value in sorted(set(values)) if low < value < high]
