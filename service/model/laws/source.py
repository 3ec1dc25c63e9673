"""A random factor of a step: a law and its parameters."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats, Law

Rows = slice | NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A random factor with mean 1: its law, and (parameters, points) of that law."""

    law: Law
    shape: Floats

    def part(self, rows: Rows) -> "Source":
        """Some of the points."""
        return Source(law=self.law, shape=self.shape[:, rows])
