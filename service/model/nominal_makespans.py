"""Makespans of replicas whose GPUs all do what they should, for points of one plan.

By a formula where one is exact, otherwise by working through all operations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from service.model.exchange.lines import Lines
from service.model.laws.law import Floats
from service.model.pipeline.closed_forms import closed_makespans
from service.model.pipeline.engine import makespans
from service.model.pipeline.lines import lines_of
from service.model.pipeline.plan import Plan
from service.model.pipeline.plans import plan_of

Mask = NDArray[np.bool_]
Key = tuple[str, int, int, int, bytes]

MOST_KEPT = 4096
"""Makespans that were worked through, those found longest ago go first."""
MOST_BYTES = 4096
"""Of the times of one that is kept: so all of them take some 20 megabytes at most."""

_KEPT: dict[Key, float] = {}
"""By plan and times: several columns of one point ask for the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Makespans:
    """Pipelines of one plan; forward, backward (stages, points), the others (points,), all ms."""

    schedule: str
    stages: int
    microbatches: int
    chunks: int
    forward: Floats
    backward: Floats
    weight_fraction: Floats
    p2p: Floats

    @property
    def is_closed(self) -> Mask:
        """(points,) whether a formula is exact."""
        return ~np.isnan(self._closed())

    def nominal(self) -> Floats:
        """(points,) ms."""
        found = self._closed()
        rows = np.flatnonzero(np.isnan(found))
        if len(rows):
            found[rows] = self._worked_through(rows)
        return found

    def line(self) -> Lines:
        """Proportional to the factor of all operations: exact where handing on takes no time."""
        nominal = self.nominal()[np.newaxis]
        return Lines(nominal, np.zeros_like(nominal))

    def lines(self) -> Lines:
        """By the factor of all operations; handing on takes as long as ever."""
        return lines_of(
            self._plan(),
            self.forward,
            self.backward,
            weight_fraction=self.weight_fraction,
            p2p=self.p2p,
        )

    def without_p2p(self) -> "Makespans":
        """If handing on took no time."""
        return replace(self, p2p=np.zeros_like(self.p2p))

    def with_equal_stages(self) -> "Makespans":
        """If every stage had the mean work of all."""
        mean = np.ones((self.stages, 1))
        return replace(
            self,
            forward=mean * self.forward.mean(axis=0),
            backward=mean * self.backward.mean(axis=0),
        )

    def _worked_through(self, rows: NDArray[np.intp]) -> Floats:
        """(rows,) ms; equal ones are worked through once."""
        times = np.vstack([self.forward, self.backward, self.weight_fraction, self.p2p])[:, rows]
        sizes = self.schedule, self.stages, self.microbatches, self.chunks
        keys: list[Key] = [(*sizes, of_point.tobytes()) for of_point in times.T]
        kept = ((key, _KEPT.get(key)) for key in set(keys))
        found = {key: value for key, value in kept if value is not None}
        new = {key: row for key, row in zip(keys, rows.tolist(), strict=True) if key not in found}
        if new:
            lanes = list(new.values())
            values = makespans(
                self._plan(),
                self.forward[:, lanes],
                self.backward[:, lanes],
                weight_fraction=self.weight_fraction[lanes],
                p2p=self.p2p[lanes],
            )
            worked_through = dict(zip(new, values.tolist(), strict=True))
            found |= worked_through
            _keep(worked_through)
        return np.array([found[key] for key in keys])

    def _plan(self) -> Plan:
        return plan_of(self.schedule, self.stages, self.microbatches, self.chunks)

    def _closed(self) -> Floats:
        return closed_makespans(
            self.schedule,
            self.stages,
            self.microbatches,
            self.chunks,
            forward=self.forward,
            backward=self.backward,
            weight_fraction=self.weight_fraction,
            p2p=self.p2p,
        )


def joined(parts: Sequence[Makespans]) -> Makespans:
    """The points of all, which have one plan, one after the other."""
    return replace(
        parts[0],
        forward=np.hstack([part.forward for part in parts]),
        backward=np.hstack([part.backward for part in parts]),
        weight_fraction=np.hstack([part.weight_fraction for part in parts]),
        p2p=np.hstack([part.p2p for part in parts]),
    )


def _keep(found: dict[Key, float]) -> None:
    """Other threads may do so at the same time: no more is lost than what they could find."""
    _KEPT.update({key: value for key, value in found.items() if len(key[-1]) <= MOST_BYTES})
    for key in list(_KEPT)[: max(len(_KEPT) - MOST_KEPT, 0)]:
        _KEPT.pop(key, None)
