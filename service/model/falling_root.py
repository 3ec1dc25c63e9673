"""The root of a falling function, for many points at once."""

from collections.abc import Callable

import numpy as np

from service.model.laws.law import Floats

_MAX_STEPS = 120


def falling_root(
    function: Callable[[Floats], Floats], left: Floats, right: Floats, relative: float = 1e-13
) -> Floats:
    """Where `function` falls through 0 between `left` and `right`; all arrays of one shape.

    To the part `relative` of the distance, or to round-off.

    False position that halves the weight of an end that stays (Illinois), and the bracket's
    middle where three steps have not halved it: plateaus and jumps cost steps, no accuracy.
    """
    at_left, at_right = function(left), function(right)
    scale = np.maximum(np.abs(left), np.abs(right))
    goal = np.maximum(relative * (right - left), 2 * np.finfo(np.float64).eps * scale)
    found = (left + right) / 2
    moved_left = np.zeros(left.shape, dtype=np.int8)
    earlier_width = right - left
    for step in range(_MAX_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            place = (left * at_right - right * at_left) / (at_right - at_left)
        if step % 3 == 2:
            place = np.where(right - left > earlier_width / 2, (left + right) / 2, place)
            earlier_width = right - left
        place = np.where((place >= left) & (place <= right), place, (left + right) / 2)
        value = function(place)
        above = value > 0
        side = np.where(above, 1, -1).astype(np.int8)
        again = side == moved_left
        at_right = np.where(above, np.where(again, at_right / 2, at_right), value)
        at_left = np.where(above, value, np.where(again, at_left / 2, at_left))
        left, right = np.where(above, place, left), np.where(above, right, place)
        moved_left = side
        near = (np.abs(place - found) <= goal) | (right - left <= goal)
        found = place
        if near.all():
            break
    return found
