"""Uniform numbers that depend on a seed, a source and a rank alone."""

from functools import lru_cache

import numpy as np

from service.model.laws.law import Floats

_WORDS_PER_COUNTER = 4
_BITS = 52
MOST_KEPT = 1 << 17
"""Ranks; of so many numbers of a source, a megabyte, the last few arrays are kept."""


def upper_uniforms(seed: int, source: int, start: int, stop: int) -> Floats:
    """(stop - start,) uniform numbers q of the ranks from `start` on; the u of a rank is 1 - q.

    Not to be written to.

    Word i of Philox4x64-10 under the key (seed, source), its upper 52 bits plus a half: never 0 or
    1, and 1 - q is exact.
    """
    if start == 0 < stop <= MOST_KEPT:
        # Asked for again and again while somebody moves a slider: kept by powers of two.
        return _kept(seed, source, 1 << (stop - 1).bit_length())[:stop]
    return _drawn(seed, source, start, stop)


@lru_cache(maxsize=16)
def _kept(seed: int, source: int, stop: int) -> Floats:
    found = _drawn(seed, source, 0, stop)
    found.flags.writeable = False
    return found


def _drawn(seed: int, source: int, start: int, stop: int) -> Floats:
    first = start // _WORDS_PER_COUNTER
    generator = np.random.Philox(key=np.array([seed, source], dtype=np.uint64))
    generator.advance(first)
    words = generator.random_raw(stop - first * _WORDS_PER_COUNTER)
    bits = words[start - first * _WORDS_PER_COUNTER :] >> np.uint64(64 - _BITS)
    return (bits.astype(np.float64) + 0.5) * 2.0**-_BITS
