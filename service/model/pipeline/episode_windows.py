"""What episodes do to the average over a window: how much of a moment's variance it keeps.

A step takes what the worst of the current episodes makes it take. That some level is exceeded is
then a matter of whether an episode that is bad enough is under way: such ones come as a Poisson
process, Lambda of them at a time, with P(none) = e^-Lambda, and lengths that are exponential of
mean tau. With q the probability of a level, two moments at distance s have

    P(f <= a, f' <= b) = q_a q_b exp(min(Lambda_a, Lambda_b) e^(-s / tau)),

so that the variance, summed over pairs of levels (Hoeffding), falls into parts that are remembered
for tau / k, weighted by a Poisson law in k. For one rare kind of episode all of it is remembered
for tau, as in `clusters/episode_effects.py`; where some episode is always under way, far less.
"""

import numpy as np
from scipy import special

from service.model.clusters.episode_effects import kept_share
from service.model.laws.law import Floats

_MOST = 40.0
"""Episodes at a time: none is as good as impossible."""
_TERMS = 120
_PLACES = 1025


def kept_variance(value: Floats, probability: Floats, mean_hours: float, hours: float) -> float:
    """Of the average over a window of so many hours; `value` (states,) is monotone in the step.

    The states are sorted by their steps, the shortest first.
    """
    up_to = np.clip(np.cumsum(probability)[:-1], np.exp(-_MOST), 1.0)
    gap = np.diff(value)
    share = np.interp(-np.log(up_to), *_shares(mean_hours, hours))
    below = gap * up_to
    # Each level with itself and, twice, with those below.
    with_below = 2 * np.cumsum(below) - below
    return float(gap * share @ with_below)


def _shares(mean_hours: float, hours: float) -> tuple[Floats, Floats]:
    """By Lambda: (places,) each, the average of what is kept over a Poisson law, 0 for k = 0."""
    k = np.arange(1.0, _TERMS)
    kept = kept_share(mean_hours / k, np.full(len(k), hours))
    number = _MOST * np.linspace(0, 1, _PLACES) ** 2
    log_weight = special.xlogy(k, number[:, np.newaxis]) - special.gammaln(k + 1)
    return number, np.exp(log_weight - number[:, np.newaxis]) @ kept
