"""Tables of quantiles as factors: masses at points, over which a product is integrated.

P(A B > t) for a table A is a sum over pieces of A's quantile function, each a straight line of
which Gauss's rule takes two points; no rule in A's normal score sees the pieces. What B does to
the other side is smooth, so pieces far shorter than the table is wide are merged: the number of
masses is bounded for tables of any length.
Source: Gauss's rule [textbook]; compared with all pieces of ragged tables in the tests.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from service.model.laws.empirical import Table
from service.model.laws.law import Floats

# Parts of the table's width, in log x, that a piece may span; more masses than so many are merged.
_PARTS = 256
_MOST = 1024
# Smaller values than these parts of the largest never make a GPU the slowest.
_LOWEST_PART = 1e-3
_OFFSET = 0.5 / np.sqrt(3)


class Atoms(NamedTuple):
    """log_x (atoms,) ascending and their probabilities (atoms,); above (atoms,) P(X > x)."""

    log_x: Floats
    weight: Floats
    above: Floats


def atoms_of(tables: Sequence[Table]) -> Atoms:
    """The product of the tables."""
    return _product(tuple(tables))


def survival_of(tables: Sequence[Table], v: Floats) -> Floats:
    """P(log of the product > v), a straight line between the masses: to 1e-5 or so."""
    atoms = atoms_of(tables)
    first, last = (sum(np.log(max(t.knots[end], 1e-12)) for t in tables) for end in (0, -1))
    places = np.concatenate([[min(first, atoms.log_x[0])], atoms.log_x, [last]])
    found: Floats = np.interp(v, places, np.concatenate([[1.0], atoms.above, [0.0]]))
    return found


@lru_cache(maxsize=64)
def _product(tables: tuple[Table, ...]) -> Atoms:
    found = _of_table(tables[0])
    for table in tables[1:]:
        other = _of_table(table)
        log_x = np.add.outer(found.log_x, other.log_x).ravel()
        weight = np.multiply.outer(found.weight, other.weight).ravel()
        order = np.argsort(log_x)
        above = np.cumsum(weight[order][::-1])[::-1] - weight[order] / 2
        found = _merged(Atoms(log_x[order], weight[order], above))
    return found


def _of_table(table: Table) -> Atoms:
    """Two masses on every piece between knots, halvings of the tail and further cuts."""
    floor = _LOWEST_PART * table.knots[-1]
    start = np.maximum(table.knots[0], floor)
    most = max(float(np.log(table.knots[-1] / start)), 1e-12) / _PARTS
    # By probability, where a jump keeps its place.
    upper = np.concatenate([np.arange(table.num_observations + 1.0), _tail()])
    upper = np.unique(upper) / table.num_observations
    right, left = (np.log(np.maximum(x, floor)) for x in _sides(table, upper))
    cuts = np.ceil(np.maximum((right - left) / most, 1)).astype(np.intp)
    number = np.repeat(np.arange(len(cuts)), cuts)
    part = np.arange(len(number)) - np.repeat(np.cumsum(cuts) - cuts, cuts)
    width = (np.diff(upper) / cuts)[number]
    middle = upper[number] + (part + 0.5) * width
    above = np.stack([middle + _OFFSET * width, middle - _OFFSET * width], axis=1).ravel()[::-1]
    x = table.upper_quantile(above, above)
    weight = np.repeat(width / 2, 2)[::-1]
    order = np.argsort(-above, kind="stable")
    return _merged(Atoms(np.log(np.maximum(x, floor))[order], weight[order], above[order]))


def _tail() -> Floats:
    """Parts of the last interval: halves, so that larger fleets find its end."""
    parts: Floats = 2.0 ** -np.arange(1.0, 31.0)
    return parts


def _sides(table: Table, upper: Floats) -> tuple[Floats, Floats]:
    """The values at both ends of the pieces between probabilities to exceed, ascending."""
    inside = np.diff(upper) * 1e-9
    return (
        table.upper_quantile(upper[:-1] + inside, upper),
        table.upper_quantile(upper[1:] - inside, upper),
    )


def _merged(atoms: Atoms) -> Atoms:
    """At most some thousand masses; neighbours of one half of the tail become one at their mean."""
    if len(atoms.weight) <= _MOST:
        return atoms
    log_x = atoms.log_x
    step = max(float(log_x[-1] - log_x[0]), 1e-12) / (2 * _PARTS)
    bucket = np.floor((log_x - log_x[0]) / step)
    half = np.floor(-np.log2(np.maximum(atoms.above, 2.0**-50)))
    changes = (np.diff(bucket) != 0) | (np.diff(half) != 0)
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    weight = np.add.reduceat(atoms.weight, starts)
    mean = np.add.reduceat(atoms.weight * np.exp(log_x), starts) / weight
    above = np.add.reduceat(atoms.weight * atoms.above, starts) / weight
    return Atoms(np.log(mean), weight, above)
