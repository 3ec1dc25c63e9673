"""The makespan by one factor S of all operations: a maximum of lines, work x S + crossings x p2p.

Every chain of operations is a line, there are far too many to list. But at any S the longest chain
is one of those that are the maximum somewhere, and the makespan is convex: if at the S where two
known lines meet the makespan is no higher than there, no line lies above both between them.
Otherwise the longest chain there is a new line, and the search goes on left and right of it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from service.model.exchange.lines import Lines, envelope
from service.model.laws.law import Floats
from service.model.pipeline.critical_paths import longest_chains
from service.model.pipeline.engine import makespans
from service.model.pipeline.plan import Plan

Rows = NDArray[np.intp]

# a line that is higher, or steeper, by no more than this is the same with another round-off
_SAME = 1e-12
# beyond the last S that is looked at, a missing line is steeper by less than this
_STEEPEST_MISSED = 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class _Pipelines:
    """Points of one plan, arguments as of `lines_of`."""

    plan: Plan
    forward: Floats
    backward: Floats
    weight_fraction: Floats
    p2p: Floats

    def part(self, rows: Rows) -> "_Pipelines":
        """Some of the points."""
        return replace(
            self,
            forward=self.forward[:, rows],
            backward=self.backward[:, rows],
            weight_fraction=self.weight_fraction[rows],
            p2p=self.p2p[rows],
        )

    def without_p2p(self) -> Floats:
        """(points,) makespans at S = 1 if messages took no time."""
        return makespans(
            self.plan,
            self.forward,
            self.backward,
            weight_fraction=self.weight_fraction,
            p2p=np.zeros(1),
        )

    def lines_at(self, s: Floats) -> Floats:
        """(slope and offset, points) of the longest chain at s."""
        chains = longest_chains(
            self.plan,
            s * self.forward,
            s * self.backward,
            weight_fraction=self.weight_fraction,
            p2p=self.p2p,
        )
        offset = chains.crossings * self.p2p
        return np.stack([(chains.makespan - offset) / s, offset])


def lines_of(
    plan: Plan, forward: Floats, backward: Floats, *, weight_fraction: Floats, p2p: Floats
) -> Lines:
    """All lines that are the makespan at some S > 0, in ms; (lines, points).

    forward, backward   (stages, points) ms at S = 1
    weight_fraction     (points,)
    p2p                 (points,) ms, whatever S
    """
    forward, backward, weight_fraction, p2p = np.broadcast_arrays(
        forward, backward, weight_fraction, p2p
    )
    every = _Pipelines(
        plan=plan,
        forward=forward,
        backward=backward,
        weight_fraction=weight_fraction[0],
        p2p=p2p[0],
    )
    work = every.without_p2p()
    # two lines of different crossings meet at c / work or later
    ratio = np.where(every.p2p > 0, every.p2p / work, 1.0)
    left = every.lines_at(ratio / 2)
    right = every.lines_at(ratio * plan.num_levels / _STEEPEST_MISSED)
    points = np.arange(len(work))
    return _enveloped(_between(every, points, left, right), left, right)


Found = tuple[Rows, Floats]


def _between(every: _Pipelines, points: Rows, left: Floats, right: Floats) -> list[Found]:
    """Points and the lines that are highest between the line on the left and on the right."""
    found: list[Found] = []
    while len(points):
        steeper, lower = right[0] - left[0], left[1] - right[1]
        meets = (steeper > _SAME * left[0]) & (lower > 0)
        points, left, right = points[meets], left[:, meets], right[:, meets]
        s = lower[meets] / steeper[meets]
        middle = every.part(points).lines_at(s)
        is_new = middle[0] * s + middle[1] > (left[0] * s + left[1]) * (1 + _SAME)
        points, middle = points[is_new], middle[:, is_new]
        found.append((points, middle))
        left = np.concatenate([left[:, is_new], middle], axis=1)
        right = np.concatenate([middle, right[:, is_new]], axis=1)
        points = np.tile(points, 2)
    return found


def _enveloped(found: list[Found], left: Floats, right: Floats) -> Lines:
    """The lines found at each point; one with fewer repeats that on the left."""
    points = np.concatenate([points for points, _ in found])
    lines = np.concatenate([lines for _, lines in found], axis=1)
    order = np.argsort(points, kind="stable")
    counts = np.bincount(points, minlength=left.shape[1])
    place = np.arange(len(points)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.repeat(left[:, np.newaxis], counts.max() + 2, axis=1)
    table[:, 0] = right
    table[:, 2 + place, points[order]] = lines[:, order]
    return envelope(table[0], table[1])
