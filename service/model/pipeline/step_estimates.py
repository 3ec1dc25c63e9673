"""From drawn rounds to the mean step and its standard error.

What is known exactly steadies the mean (control variates): the factor of all GPUs, of mean 1, and
the steps if GPUs were only slow or not (`known_parts.py`). With episodes the mean is the one over
time: 1 / the mean over states of 1 / (rho + the mean step in it), less rho. Within a state few
draws are averaged; 1 / their mean is too large by v / (rho + m)^3, v the variance of that mean,
which is taken off. What is left of that bias is of the order of the square of v / (rho + m)^2.

What is known may be rarer than the draws show. Then they do not tell how it acts together with the
rest, only what it adds by itself: that is added, and held for right to a twentieth.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.rounds import Rounds
from service.model.recursion.estimates import Estimate, estimate, standard_error

# With fewer values a coefficient is not worth what it costs.
_ENOUGH = 16
_VARIES = 1e-12
# So many values tell how something rare acts beside the rest.
_MANY = 30
LEAST_UNTRIED = 0.05
"""Of what something rare adds, the error of its acting together with the rest, at least."""


class Expected(NamedTuple):
    """mean of a step with its standard error, and `rest` of a step without floor."""

    mean: float
    mean_se: float
    rest: float


class OverTime(NamedTuple):
    """rho is what is outside of a step; each `inner` draws are those of one state."""

    rho: float
    inner: int


class Known(NamedTuple):
    """Steps if GPUs were only slow or not.

    drawn               (draws,) with episodes (states,), of the same random numbers
    step, probability   (values,) their distribution
    """

    drawn: Floats
    step: Floats
    probability: Floats


def expected_step(
    rounds: Rounds, floor: float, known: Sequence[Known] = (), share: float = LEAST_UNTRIED
) -> Expected:
    """Where no state lasts; of what is known, a `share` may be otherwise beside the rest."""
    common, known_steps = rounds.common - 1, _of_steps(known, floor)
    found = _steadied(np.maximum(rounds.step, floor), [common], known_steps)
    rest = _steadied(rounds.step, [common], _of_steps(known, -np.inf))
    error = standard_error(found.deviations, found.widening)
    return Expected(found.mean, float(np.hypot(error, untried(known_steps, share))), rest.mean)


def expected_over_time(
    rounds: Rounds,
    floor: float,
    over_time: OverTime,
    known: Sequence[Known] = (),
    passing: Sequence[Known] = (),
    *,
    share: float = LEAST_UNTRIED,
) -> Expected:
    """Where states last; `known` is drawn for each state, `passing` for each draw.

    `rest` is the mean over the steps that are done: states weigh by how many they see.
    """
    rho, inner = over_time
    floored = _without_common(np.maximum(rounds.step, floor), rounds).reshape(-1, inner)
    rate = 1 / (rho + floored.mean(axis=1))
    if inner > 1:
        rate -= floored.var(axis=1, ddof=1) / inner * rate**3
    slope = -float(np.square(rate).mean())
    known_rates = _of_rates(known, floor, rho)
    known_rates += [
        slope * control.reshape(-1, inner).mean(axis=1) for control in _of_steps(passing, floor)
    ]
    found = _steadied(rate, [], known_rates)
    mean = 1 / found.mean - rho
    drawn = standard_error(found.deviations, found.widening)
    error = float(np.hypot(drawn, untried(known_rates, share))) / found.mean**2
    # Without a floor the rest is the mean.
    rest = _without_common(rounds.step, rounds).reshape(-1, inner)
    added = ((floored - rest).mean(axis=1) * rate).mean() / found.mean
    return Expected(mean, error, mean - float(added))


def _of_steps(known: Sequence[Known], floor: float) -> list[Floats]:
    """Controls of steps: (draws,) of expectation 0."""
    return [
        np.maximum(part.drawn, floor) - part.probability @ np.maximum(part.step, floor)
        for part in known
    ]


def _of_rates(known: Sequence[Known], floor: float, rho: float) -> list[Floats]:
    """Controls of 1 / steps: (states,) of expectation 0."""
    return [
        1 / (rho + np.maximum(part.drawn, floor))
        - part.probability @ (1 / (rho + np.maximum(part.step, floor)))
        for part in known
    ]


def _without_common(values: Floats, rounds: Rounds) -> Floats:
    """(draws,) without what follows from the distance of the factor of all GPUs from 1."""
    found = _steadied(values, [rounds.common - 1], [])
    return found.mean + found.deviations


def _steadied(values: Floats, controls: list[Floats], known: list[Floats]) -> Estimate:
    """By controls of expectation 0, each (values,); what is known adds up where it never varies."""
    if len(values) < _ENOUGH:
        return estimate(values, [])
    varying = [control for control in (*controls, *known) if control.std() > _VARIES]
    unseen = sum(float(control.mean()) for control in known if control.std() <= _VARIES)
    return estimate(values - unseen, varying)


def untried(known: list[Floats], share: float = LEAST_UNTRIED) -> float:
    """Error of what is known and so rare that few values, or none, have it; (values,) controls.

    Few values determine their own coefficient, so that their deviations do not tell it: a share of
    what it adds on average, which is what most values, having none of it, lie off by.
    """
    errors = [0.0]
    for control in known:
        typical = float(np.median(control))
        number = int(np.count_nonzero(np.abs(control - typical) > _VARIES))
        if len(control) >= _ENOUGH and number < _MANY:
            errors.append(share * abs(typical) / max(number, 1) ** 0.5)
    return float(np.hypot.reduce(errors))
