"""How often the drift rule errs, and how soon it sees: by a Markov chain, and by brute force.

The chain is that of Brook and Evans (Biometrika 1972): the sum in small steps, all ways up to the
threshold. It is held against published run lengths of the plain rule, and the product's rule
against it.
"""

import numpy as np
import pytest
from scipy.special import ndtr

from service.calibration.chance import CHANCE_DEVIATIONS
from service.calibration.drift import MOST_OF_ONE_RUN, THRESHOLD, TOLERATED, drift_of

# Departures of right runs where chance is all that is tolerated: the most that it can be
CHANCE_SD = 1 / CHANCE_DEVIATIONS


def run_length(
    mean: float, sd: float, *, reference: float, threshold: float, most: float = np.inf
) -> float:
    """Runs until the sum of one direction reaches the threshold, on average."""
    num = 300
    width = 2 * threshold / (2 * num - 1)
    sums = np.arange(num) * width
    upper = sums + width / 2

    def below(gain: np.ndarray) -> np.ndarray:
        return np.where(gain >= most, 1.0, ndtr((gain + reference - mean) / sd))

    reached = below(upper[np.newaxis, :] - sums[:, np.newaxis])
    moves = np.diff(reached, axis=1, prepend=0)
    return float(np.linalg.solve(np.eye(num) - moves, np.ones(num))[0])


def of_the_rule(mean: float, sd: float = CHANCE_SD) -> float:
    return run_length(mean, sd, reference=TOLERATED, threshold=THRESHOLD, most=MOST_OF_ONE_RUN)


@pytest.mark.parametrize(
    ("threshold", "mean", "published"),
    # Montgomery, Introduction to Statistical Quality Control, table 9.3 (both directions; of one
    # alone without a shift twice as many): reference 1/2
    [(4, 0, 2 * 168), (5, 0, 2 * 465), (4, 1, 8.38), (5, 1, 10.4), (4, 2, 3.34), (5, 2, 4.01)],
)
def test_the_chain_gives_published_run_lengths(
    threshold: float, mean: float, published: float
) -> None:
    found = run_length(mean, 1, reference=0.5, threshold=threshold)
    assert found == pytest.approx(published, rel=0.005)


def test_a_false_alarm_takes_a_hundred_million_runs() -> None:
    """Of runs with a luck of their own each; in either direction."""
    assert of_the_rule(0) / 2 > 1e8
    # Off by half of what is tolerated, and the luck on top
    assert of_the_rule(0.5) > 1e4


@pytest.mark.parametrize(("mean", "least", "most"), [(1.2, 6, 7), (1.5, 3, 4), (2, 2, 2.5)])
def test_a_drift_is_seen_soon(mean: float, least: float, most: float) -> None:
    assert least < of_the_rule(mean) < most


@pytest.mark.parametrize("mean", [1.0, 1.5])
def test_the_rule_is_the_chains(mean: float) -> None:
    rng = np.random.default_rng(1)
    lengths = []
    for _ in range(500):
        points = drift_of(rng.normal(mean, CHANCE_SD, 150).tolist()).points
        over = [run for run, point in enumerate(points) if point.slower >= THRESHOLD]
        lengths.append(over[0] + 1 if over else len(points))
    error = np.std(lengths) / np.sqrt(len(lengths))
    assert np.mean(lengths) == pytest.approx(of_the_rule(mean), abs=4 * error)


def test_of_clusters_with_one_luck_for_all_runs_one_in_a_hundred_is_warned_of() -> None:
    rng = np.random.default_rng(2)
    lucks = rng.normal(0, CHANCE_SD, 4_000)
    warned = [drift_of([luck] * 40).direction is not None for luck in lucks.tolist()]
    assert 0.005 < np.mean(warned) <= 0.012
