"""Makespans of replicas whose GPUs all do what they should, for points of one plan.

By a formula where one is exact, otherwise by working through all operations.
"""

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
            found[rows] = makespans(
                self._plan(),
                self.forward[:, rows],
                self.backward[:, rows],
                weight_fraction=self.weight_fraction[rows],
                p2p=self.p2p[rows],
            )
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
