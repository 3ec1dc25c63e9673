"""The root of a falling function, for many points at once."""

from collections.abc import Callable

import numpy as np

from service.model.laws.law import Floats

_MAX_STEPS = 120
_BEYOND = 0.45
_ROUND_OFF = 4 * np.finfo(np.float64).eps


def bracket_of_root(
    function: Callable[[Floats], Floats], left: Floats, right: Floats, relative: float
) -> tuple[Floats, Floats]:
    """Places around the root between `left` and `right`, not above 0 and above; all of one shape.

    Their distance is at most the part `relative` of the first one, or round-off. False position
    that halves the weight of an end that stays (Illinois), and the middle where three steps have
    not halved the bracket: plateaus and jumps cost steps, no accuracy.
    """
    at_left, at_right = function(left), function(right)
    scale = np.maximum(np.abs(left), np.abs(right))
    goal = np.maximum(relative * (right - left), _ROUND_OFF * scale)
    moved = np.zeros(left.shape, dtype=np.int8)
    earlier_width = right - left
    for step in range(_MAX_STEPS):
        going = right - left > goal
        if not going.any():
            break
        middle = (left + right) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            place = (left * at_right - right * at_left) / (at_right - at_left)
        if step % 3 == 2:
            place = np.where(right - left > earlier_width / 2, middle, place)
            earlier_width = right - left
        # Almost half the goal beyond the guess: so that a good guess closes the bracket from both
        # sides, and not by round-off.
        place += np.where(moved > 0, _BEYOND * goal, -_BEYOND * goal)
        place = np.where((place > left) & (place < right), place, middle)
        value = function(place)
        above = value > 0
        side = np.where(above, 1, -1).astype(np.int8)
        again = side == moved
        at_right = np.where(above, np.where(again, at_right / 2, at_right), value)
        at_left = np.where(above, value, np.where(again, at_left / 2, at_left))
        left = np.where(going & above, place, left)
        right = np.where(going & ~above, place, right)
        moved = side
    return left, right


def falling_root(function: Callable[[Floats], Floats], left: Floats, right: Floats) -> Floats:
    """Where `function` falls through 0 between `left` and `right`, all of one shape."""
    left, right = bracket_of_root(function, left, right, relative=1e-12)
    return (left + right) / 2
