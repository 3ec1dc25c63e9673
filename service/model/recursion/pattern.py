"""Who waits for whom where no barrier ends every step. Times in units of the nominal compute time.

B_i(k) and F_i(k) are the beginning and the end of step k = 1, 2, … of rank i, X_i(k) = load +
factor_i(k) what it takes, F(k <= 0) = 0. Sources: `communication.md` 3.4, 3.6 (fragments: torchft).
"""

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats

Rows = slice | NDArray[np.intp]


class _Columns:
    """Arrays whose last axis is the points; None where absent."""

    __slots__ = ()

    def part(self, rows: Rows) -> Self:
        """Some of the points."""
        taken = {}
        for field in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, field.name)
            if value is not None:
                taken[field.name] = value[..., rows]
        return replace(self, **taken)  # type: ignore[type-var]  # likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness(_Columns):
    """F_i(k) = max(F_i(k-1), max_j F_j(k-1-s) + d) + X_i(k); (points,) each.

    staleness    s, int64, steps; 0 is a barrier each step
    delay_ratio  d, until the last rank's update is seen
    load_ratio   part of X that does not vary
    hidden_ratio load that is hidden behind the step before: B_i(k) >= B_i(k-1) + hidden
    """

    staleness: NDArray[np.int64]
    delay_ratio: Floats
    load_ratio: Floats
    hidden_ratio: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds(_Columns):
    """Ranks step freely and exchange a fragment every L = steps / fragments steps; (points,) each.

    Exchange m = 1, 2, … is ready when the last rank has done its step mL up to the share `release`
    of its compute, and ends at E_m = max(ready_m, E_(m-1)) + t, one at a time:
    ready_m = max_i (B_i(mL) + load + release * factor_i(mL)). A rank begins step mL + overlap_steps
    + 1 no sooner than E_m.

    steps, fragments, overlap_steps   int64; fragments divide steps, overlap_steps < L
    release_fraction                  of the compute of a step
    part_ratio                        t, what the exchange of one fragment takes
    load_ratio                        part of X that does not vary
    hidden_ratio                      load behind the step before: B_i(k) >= B_i(k-1) + hidden

    With buckets, in place of release and t: bucket b of exchange m is ready once the last rank has
    done the share W_b of the compute of step mL, theta * (c_1 + … + c_(b-1)) later where compute is
    slowed by 1 + gamma while buckets travel, theta = gamma / (1 + gamma), and e_b = max(ready_b,
    e_(b-1)) + c_b; E_m is the last e_b.

    release_shares, bucket_ratios   W and c, (buckets, points); a bucket that takes no time is none
    contention_fraction             gamma, (points,)
    """

    steps: NDArray[np.int64]
    fragments: NDArray[np.int64]
    overlap_steps: NDArray[np.int64]
    release_fraction: Floats
    part_ratio: Floats
    load_ratio: Floats
    hidden_ratio: Floats | None = None
    release_shares: Floats | None = None
    bucket_ratios: Floats | None = None
    contention_fraction: Floats | None = None

    @property
    def last_release(self) -> Floats:
        """(points,) share of the compute after which the last of an exchange is ready."""
        return (
            self.release_fraction if self.bucket_ratios is None else self.release_fraction * 0 + 1
        )

    @property
    def is_blocking(self) -> NDArray[np.bool_]:
        """(points,) whether nobody goes on before the exchange of a finished step has ended."""
        blocking: NDArray[np.bool_] = (self.overlap_steps == 0) & (self.last_release == 1)
        return blocking


Pattern = Staleness | Rounds
