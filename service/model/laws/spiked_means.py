"""Means of steps with spikes, number of spikes by number.

Of H steps with k spikes the mean is ((H - k) A + slowdown k B) / H, A the mean of the healthy steps
and B that of the spiked ones: all from `doubling.py`, so that heavy tails and laws that begin with
a corner are as exact as there. The mixture over k is a sum of positive terms. Where a part of the
steps has no bumps any more, that many are taken together and the groups are doubled.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.laws.doubling import (
    Curve,
    curve_of,
    from_scores,
    mean_of_equals,
    mean_of_steps,
    mean_of_two,
)
from service.model.laws.law import Floats, Law
from service.model.laws.piecewise import Pieces, nodes_of, through

_RAREST = 1e-22
_FEW_NUMBERS, MOST_NUMBERS = 24, 64
"""Of spikes: two or three steps of doubling for each."""
# Bumps are apart by (slowdown - 1) / steps; in standard deviations of the mean of the steps they
# vanish below this. And the fewest steps after which a corner of the law has vanished.
_WIDEST_GAP, _FEWEST_STEPS = 1.5, 16
# Scores at which a part has an end of a panel; the least distance, of the part's least.
_EDGES = np.arange(-7.5, 12.0)
_LEAST_DISTANCE = 0.3


class Steps(NamedTuple):
    """One step's law and spikes, and how many steps."""

    law: Law
    shape: Floats
    probability: float
    slowdown: float
    steps: int


class _Part(NamedTuple):
    """With so many spikes: its probability, log of its mean over the expectation, the curve."""

    share: float
    log_mean: float
    curve: Curve


def numbers_of_spikes(steps: int, probability: float) -> tuple[NDArray[np.int64], Floats]:
    """The numbers that are not too rare to matter, and their probabilities."""
    number = np.arange(steps + 1)
    log_share = (
        special.gammaln(steps + 1)
        - special.gammaln(number + 1)
        - special.gammaln(steps - number + 1)
        + special.xlogy(number, probability)
        + special.xlog1py(steps - number, -probability)
    )
    kept = log_share > np.log(_RAREST)
    return number[kept], np.exp(log_share[kept])


def spiked_score_curve(given: Steps) -> Pieces:
    """From log x to the score, of the mean over its expectation.

    ValueError where the numbers of spikes are too many.
    """
    num_groups = _num_groups(given)
    of_group, larger = divmod(given.steps, num_groups)
    smaller = num_groups - larger
    if num_groups == 1:
        return _mixture(given)
    found = mean_of_equals(from_scores(_mixture(given._replace(steps=of_group))), smaller)
    if larger > 0:
        one_more = from_scores(_mixture(given._replace(steps=of_group + 1)))
        others = mean_of_equals(one_more, larger)
        found = mean_of_two(found, others, smaller * of_group / given.steps)
    return found.score_of


def has_few_numbers(steps: int, probability: float) -> bool:
    """Whether the numbers of spikes that matter are so few that nothing else is faster."""
    return len(numbers_of_spikes(steps, probability)[0]) <= _FEW_NUMBERS


def is_countable(given: Steps) -> bool:
    """Whether the numbers of spikes are few enough for `spiked_score_curve`."""
    num_groups = _num_groups(given)
    largest = -(-given.steps // num_groups)
    return len(numbers_of_spikes(largest, given.probability)[0]) <= MOST_NUMBERS


def _num_groups(given: Steps) -> int:
    """Into which the steps are divided, each of so many that its spikes leave no bumps.

    One where the steps are too few for that, or the numbers of spikes few anyway.
    """
    _, shape, probability, slowdown, steps = given
    if has_few_numbers(steps, probability):
        return 1
    cv = float(shape[0, 0])
    fewest = max(((slowdown - 1) / (_WIDEST_GAP * cv)) ** 2, _FEWEST_STEPS)
    return max(int(steps // fewest), 1)


def _mixture(given: Steps) -> Pieces:
    """Over the numbers of spikes."""
    parts = list(_parts(given))
    ends = [part.curve.log_of.at(_EDGES) + part.log_mean for part in parts]
    least = _LEAST_DISTANCE * min(float(np.diff(of_part).min()) for of_part in ends)
    edges = _spread_out(np.sort(np.concatenate(ends)), least)
    log_x = nodes_of(edges)
    above, below = np.zeros_like(log_x), np.zeros_like(log_x)
    for part in parts:
        score = part.curve.score_of.at(log_x - part.log_mean)
        above += part.share * special.ndtr(-score)
        below += part.share * special.ndtr(score)
    tiny = np.finfo(np.float64).tiny
    upper = -special.ndtri(np.clip(above, tiny, 1))
    lower = special.ndtri(np.clip(below, tiny, 1))
    return through(edges, np.where(above < below, upper, lower))


def _parts(given: Steps) -> Iterator[_Part]:
    law, shape, probability, slowdown, steps = given
    numbers, shares = numbers_of_spikes(steps, probability)
    expected = 1 + probability * (slowdown - 1)
    if len(numbers) > MOST_NUMBERS:
        raise ValueError(
            f"spikes: so heavy a tail is not known beside spikes of probability {probability} and "
            f"slowdown {slowdown} in {steps} steps"
        )
    fewest, most = int(numbers[0]), int(numbers[-1])
    spiked = _means(law, shape, fewest, most)
    healthy = _means(law, shape, steps - most, steps - fewest)
    for number, share in zip(numbers.tolist(), shares.tolist(), strict=True):
        mean = (steps - number + slowdown * number) / steps
        if number == 0:
            curve = healthy[steps]
        elif number == steps:
            curve = spiked[steps]
        else:
            part = (steps - number) / (steps * mean)
            curve = mean_of_two(healthy[steps - number], spiked[number], part)
        yield _Part(share, float(np.log(mean / expected)), curve)


def _means(law: Law, shape: Floats, fewest: int, most: int) -> dict[int, Curve]:
    """Of so many steps, but for no step at all, from the fewest to the most."""
    first = max(fewest, 1)
    found = {first: mean_of_steps(law, shape, first)}
    one = curve_of(law, shape)
    for number in range(first, most):
        found[number + 1] = mean_of_two(found[number], one, number / (number + 1))
    return found


def _spread_out(edges: Floats, least: float) -> Floats:
    """Rising edges without those that follow closer than the least distance."""
    kept = [edges[0]]
    for edge in edges[1:].tolist():
        if edge - kept[-1] >= least:
            kept.append(edge)
    return np.array(kept)
