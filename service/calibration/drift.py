"""Whether runs drift away from what is predicted: a two-sided cumulative sum over departures.

A departure is how far a run's mean step is off, in units of the larger of the tolerance and what
chance explains of that run (`chance.departure_of`): beyond 1 in size it has parted. What goes
beyond 1 is added up, one run after the other, for each direction apart; a run within takes away
what it is short of 1; one run adds at most 1/2:

    sum = min(2, max(0, sum + min(departure - 1, 1/2)))

and from a sum of 1 on it is a drift. So two runs far off are one, or five that are a fifth beyond;
one run alone is none, however far off; and of runs within the tolerance there is none for ever.
Rates (computed in `tests/calibration/test_drift_rates.py`): of clusters that the profile describes
rightly, at most one in a hundred is ever warned of, though all its runs share its luck; where every
run has a luck of its own, a false alarm takes a hundred million runs. Runs at twice what is
tolerated are seen after 2, at one and a half times after 3 to 4, at 1.2 times after 6 to 7.
"""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

Direction = Literal["slower", "faster"]

TOLERATED: Final = 1.0
MOST_OF_ONE_RUN: Final = 0.5
THRESHOLD: Final = 1.0
# So that a few runs on the mark are enough to end a long drift
HIGHEST: Final = 2.0
ROUND_OFF: Final = 1e-9


class DriftPoint(Struct, frozen=True, kw_only=True):
    """Both sums after a run; unchanged by a run whose departure is not known."""

    slower: float
    faster: float


class Drift(Struct, frozen=True, kw_only=True):
    """After the last run: the direction that is drifted in, if any, and since which run.

    `since` is the position of the first run of the rise that has led over the threshold.
    """

    points: list[DriftPoint]
    direction: Direction | None
    since: int | None


class _Sum:
    """One direction: the sum, and the run at which it left 0."""

    def __init__(self) -> None:
        self.value = 0.0
        self.since: int | None = None

    def add(self, run: int, departure: float) -> None:
        before = self.value
        gained = min(departure - TOLERATED, MOST_OF_ONE_RUN)
        self.value = min(HIGHEST, max(0.0, before + gained))
        if self.value == 0:
            self.since = None
        elif self.since is None:
            self.since = run

    @property
    def is_over(self) -> bool:
        return self.value >= THRESHOLD - ROUND_OFF


def drift_of(departures: Sequence[float | None]) -> Drift:
    """The drift after runs in the order in which they were observed; None is left out."""
    slower, faster = _Sum(), _Sum()
    points = []
    for run, departure in enumerate(departures):
        if departure is not None:
            slower.add(run, departure)
            faster.add(run, -departure)
        points.append(DriftPoint(slower=slower.value, faster=faster.value))
    if slower.is_over:
        return Drift(points=points, direction="slower", since=slower.since)
    if faster.is_over:
        return Drift(points=points, direction="faster", since=faster.since)
    return Drift(points=points, direction=None, since=None)
