"""The two parts of an exchange's time."""

from typing import NamedTuple

import numpy as np

from service.model.columns import Floats


class MessageTimes(NamedTuple):
    """(points,) what is paid for every message, and what grows with its bytes; ms."""

    latency_ms: Floats
    bandwidth_ms: Floats


def log2_up(count: Floats) -> Floats:
    """(points,) levels of a binary tree over so many: log2, rounded up."""
    # frexp tells powers of two exactly: count = fraction x 2^exponent, fraction in [1/2, 1).
    fraction, exponent = np.frexp(count)
    levels: Floats = exponent - (fraction == 0.5)
    return levels


def log2_down(count: Floats) -> Floats:
    """(points,) log2, rounded down."""
    return np.frexp(count)[1] - 1.0
