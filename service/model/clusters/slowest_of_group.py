"""The slowest of a few independent draws of one law, as a law."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from service.model.laws.law import Floats, Law


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestOf:
    """Of `number` draws of `law`: what the sampling of clusters needs of a law; mean above 1."""

    law: Law
    number: float

    def rate(self, x: Floats, shape: Floats) -> Floats:
        """-log P(slowest <= x)."""
        rate: Floats = self.number * self.law.rate(x, shape)
        return rate

    def at_score(self, z: Floats, shape: Floats) -> Floats:
        """The x with P(slowest <= x) = Phi(z)."""
        of_one = -special.ndtri(-np.expm1(special.log_ndtr(z) / self.number))
        return self.law.at_score(of_one, shape)
