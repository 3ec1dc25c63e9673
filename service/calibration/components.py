"""Variance components of rank x step tables, with node nested in rank and replica in the rest.

Factors multiply (the model, section 3), so a two-way table of them has, with coefficients of
variation p (rank), c (step) and t (rest),

    variance of the rest = t² (1 + p²) (1 + c²) + p² c²

so t is found from each cell by its rank's and its step's effect as factors. The mean square of
ranks is p² + (variance of the rest) * inflation / steps, where the inflation of a mean by
autocorrelation is that of `autocorrelation.py`.
"""

import math
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from service.calibration.autocorrelation import (
    Memory,
    memory_of_rest,
    memory_of_series,
)
from service.calibration.decomposition import TwoWay, two_way
from service.calibration.findings import Autocorrelation, Components, Estimate
from service.calibration.intervals import (
    Ends,
    MeanSquare,
    combined_dof,
    cv_estimate,
    difference_interval,
    excess_kurtosis_of,
    kurtosis_dof,
    kurtosis_of_rest,
    variance_interval,
)
from service.calibration.observed import Observed, mean_of
from service.calibration.replicas import nested_replicas, repeated
from service.calibration.timings import FloatArray

CHI_SQUARE = "chi_square"
DIFFERENCE = "chi_square_difference"
MIN_RANKS_FOR_KURTOSIS = 30
ROUNDS = 4


class Part(NamedTuple):
    """A variance of factors with the ends of its interval; `dof` that it was found with."""

    variance: float
    ends: Ends
    dof: float
    method: str


class Split(Struct, frozen=True, kw_only=True):
    """Variances of the factors of a table whose cells have mean 1; None where not told.

    `standard_error`, `dof`: of the mean of all cells, as an estimate of that of all such ranks.
    `rest` (steps, ranks).
    """

    persistent: Part | None
    node: Part | None
    common: Part | None
    replica: Part | None
    transient: Part | None
    memory: Memory
    autocorrelation: Autocorrelation
    mean: float
    of_rank: FloatArray
    rest: FloatArray
    standard_error: float
    dof: float

    @property
    def lasting_dof(self) -> float:
        """Degrees of freedom of what stays with ranks, or with nodes where those are told."""
        part = self.persistent if self.node is None else self.node
        return 1.0 if part is None else part.dof

    def cv(self, name: str) -> float:
        """Coefficient of variation of a source; 0 where it is not told."""
        part: Part | None = getattr(self, name)
        return 0.0 if part is None else math.sqrt(max(part.variance, 0.0))


def plain_components(observed: Observed, confidence: float, *, are_alike: bool) -> Components:
    """The two-way decomposition over all ranks, as sums of what adds up, by the mean of all cells.

    Of ranks the standard deviation of their means, less what the rest adds to it; of steps that of
    their means as they are; the rest with (steps - 1)(ranks - 1) degrees of freedom. Where some
    ranks stand apart (`are_alike` false) they are no sample of one law, and neither the spread of
    ranks nor that of the rest has an interval.
    """
    table = two_way(observed.compute_ms)
    square = table.mean * table.mean
    rest = MeanSquare(table.rest_square / square, max(table.rest_dof, 1))
    ranks = MeanSquare(table.rank_square / square, len(table.of_rank) - 1)
    steps = _steps_square(table, square, memory_of_series(table.of_step, observed.steps))
    persistent = _difference(ranks, MeanSquare(rest.value * table.rank_noise, rest.dof), confidence)
    common = Part(steps.value, variance_interval(steps, confidence), steps.dof, CHI_SQUARE)
    transient = Part(rest.value, variance_interval(rest, confidence), rest.dof, CHI_SQUARE)
    estimates = [_estimate(part) for part in (persistent, transient)]
    if not are_alike:
        estimates = [_without_ends(estimate) for estimate in estimates if estimate is not None]
    return Components(
        persistent_cv=estimates[0],
        node_cv=None,
        common_cv=_estimate(common),
        replica_cv=None,
        transient_cv=estimates[1],
    )


def _without_ends(estimate: Estimate) -> Estimate:
    return Estimate(value=estimate.value, low=None, high=None, method="ranks_stand_apart")


def components_of(split: Split) -> Components:
    """As coefficients of variation."""
    return Components(
        persistent_cv=_estimate(split.persistent),
        node_cv=_estimate(split.node),
        common_cv=_estimate(split.common),
        replica_cv=_estimate(split.replica),
        transient_cv=_estimate(split.transient),
    )


def _estimate(part: Part | None) -> Estimate | None:
    return None if part is None else cv_estimate(part.variance, part.ends, part.method)


def split_of(
    cells: FloatArray,
    observed: Observed,
    confidence: float,
    *,
    num_kinds: int,
) -> Split:
    """Split cells (steps, ranks) of mean about 1; `num_kinds` stages were scaled to it."""
    table = two_way(cells, num_kinds=num_kinds)
    square = table.mean * table.mean
    by_cell = _by_cell(cells, table)
    memory, reported = memory_of_rest(
        by_cell, observed.steps, table.rest_dof / repeated(by_cell, table, observed), confidence
    )
    # Means over so few correlated steps would leave nothing to divide by.
    num_steps = len(observed.steps)
    lowered = max(1 - (memory.inflation - 1) / (num_steps - 1), 0.1)
    rest = _rest(table, by_cell, square * lowered, memory.dof_share)
    # By its rank's and its step's factor the rest is that of factors, however far those are apart.
    own = float(np.nansum(by_cell**2)) / max(table.rest_dof, 1) / lowered
    nested = nested_replicas(by_cell, table, observed.replicas, memory.dof_share)
    within = MeanSquare(own, rest.dof)
    between = within
    if nested is not None:
        within, between = (
            MeanSquare(part.value / lowered, part.dof) for part in (nested.within, nested.between)
        )
    of_table = rest.value / own if own > 0 else 1.0
    noise = MeanSquare(rest.value * table.rank_noise * memory.inflation, rest.dof)
    persistent, node = _of_ranks(table, observed, noise, square, num_kinds, confidence)
    steps_memory = memory_of_series(table.of_step, observed.steps)
    noise_of_steps = MeanSquare(between.value * of_table, between.dof)
    common = _of_steps(table, noise_of_steps, square, steps_memory, confidence)
    transient = None
    if table.rest_dof > 0:
        ends = variance_interval(within, confidence)
        transient = Part(within.value, ends, within.dof, CHI_SQUARE)
    replica = None
    if nested is not None:
        size = nested.size
        ends = difference_interval(between, within, confidence)
        variance = max(between.value - within.value, 0.0) / size
        replica = Part(variance, Ends(ends.low / size, ends.high / size), between.dof, DIFFERENCE)
    error, dof = _error_of_mean(table, observed, square, num_kinds, (between, noise), steps_memory)
    return Split(
        persistent=persistent,
        node=node,
        common=common,
        replica=replica,
        transient=transient,
        memory=memory,
        autocorrelation=reported,
        mean=table.mean,
        of_rank=table.of_rank,
        rest=table.rest,
        standard_error=error,
        dof=dof,
    )


def _by_cell(cells: FloatArray, table: TwoWay) -> FloatArray:
    """What is left of each cell as a factor less 1: by its rank's and its step's.

    Unlike the rest it holds no product of the two, and is no larger where they are. Ranks and steps
    in turn take the mean of what the others leave: without missing cells nothing moves any more
    after the first round.
    """
    of_step = 1 + table.of_step / table.mean
    by_cell = cells
    for _ in range(ROUNDS):
        of_rank = mean_of(cells / of_step[:, np.newaxis], axis=0)
        by_cell = cells / of_rank
        of_step = mean_of(by_cell, axis=1)
    found: FloatArray = by_cell / of_step[:, np.newaxis] - 1
    return found


def _rest(table: TwoWay, by_cell: FloatArray, square: float, dof_share: float) -> MeanSquare:
    """Variance of the rest, with fewer degrees of freedom where it is correlated or long-tailed.

    Where ranks differ in it, the spread between ranks says how well the mean over them is known.
    """
    dof = max(table.rest_dof * dof_share, 1.0)
    num_ranks = table.rest.shape[1]
    dof = kurtosis_dof(dof, kurtosis_of_rest(by_cell, num_ranks), max(table.num_cells, 1))
    if num_ranks >= MIN_RANKS_FOR_KURTOSIS:
        of_ranks = mean_of(by_cell * by_cell, axis=0)
        error = float(of_ranks.std(ddof=1)) / math.sqrt(num_ranks)
        # Of few ranks that spread is itself luck: only what is beyond it counts.
        among = 2 * (float(of_ranks.mean()) / error) ** 2 if error > 0 else dof
        if among < dof * (1 - 2 * math.sqrt(2 / num_ranks)):
            dof = among
    return MeanSquare(table.rest_square / square, max(dof, 1.0))


def _of_ranks(
    table: TwoWay,
    observed: Observed,
    noise: MeanSquare,
    square: float,
    num_kinds: int,
    confidence: float,
) -> tuple[Part | None, Part | None]:
    """What stays with a rank, and what its node shares."""
    num_ranks = len(table.of_rank)
    dof = num_ranks - num_kinds
    if dof < 1:
        return None, None
    nested = _nested_nodes(table.of_rank, observed, num_kinds)
    if nested is None:
        among = MeanSquare(table.rank_square / square, _tailed(dof, table.of_rank))
        return _difference(among, noise, confidence), None
    within, means, share = nested
    within = MeanSquare(within.value / square, within.dof)
    of_nodes = MeanSquare(means.value / square, means.dof)
    node = _difference(of_nodes, MeanSquare(within.value * share, within.dof), confidence)
    return _difference(within, noise, confidence), node


def _tailed(dof: float, effects: FloatArray) -> float:
    """Degrees of freedom less what a kurtosis beyond chance costs."""
    num = len(effects)
    if num < MIN_RANKS_FOR_KURTOSIS:
        return dof
    kurtosis = excess_kurtosis_of(effects)
    return kurtosis_dof(dof, kurtosis, num) if kurtosis > math.sqrt(24 / num) else dof


def _difference(first: MeanSquare, second: MeanSquare, confidence: float) -> Part:
    ends = difference_interval(first, second, confidence)
    return Part(max(first.value - second.value, 0.0), ends, first.dof, DIFFERENCE)


def _nested_nodes(
    effects: FloatArray, observed: Observed, num_kinds: int
) -> tuple[MeanSquare, MeanSquare, float] | None:
    """Mean square within nodes, that of the nodes' means, and the share of the first in it.

    Nodes of unequal size count the same (unweighted means: Thomas and Hultquist, Annals of
    Statistics 6, 1978), which keeps the chi-square law where weighted means would not.
    """
    if observed.nodes is None:
        return None
    labels, place, sizes = np.unique(observed.nodes, return_inverse=True, return_counts=True)
    num_nodes = len(labels)
    means = np.bincount(place, weights=effects) / sizes
    within_dof, between_dof = len(effects) - num_nodes, num_nodes - 1
    if observed.stages is not None and num_kinds > 1:
        pairs = len(np.unique(np.stack([observed.nodes, observed.stages]), axis=1).T)
        if pairs == num_nodes:
            between_dof -= num_kinds - 1
        else:
            within_dof -= num_kinds - 1
    if within_dof < 1 or between_dof < 1:
        return None
    within = float(((effects - means[place]) ** 2).sum()) / within_dof
    between = float(((means - means.mean()) ** 2).sum()) / between_dof
    share = float(np.mean(1 / sizes))
    return MeanSquare(within, within_dof), MeanSquare(between, between_dof), share


def _of_steps(
    table: TwoWay, rest: MeanSquare, square: float, memory: Memory, confidence: float
) -> Part:
    steps = _steps_square(table, square, memory)
    return _difference(steps, MeanSquare(rest.value * table.step_noise, rest.dof), confidence)


def _steps_square(table: TwoWay, square: float, memory: Memory) -> MeanSquare:
    """Mean square of steps, raised by what their memory lowers it by."""
    num_steps = len(table.of_step)
    lowered = max(1 - (memory.inflation - 1) / (num_steps - 1), 0.1)
    dof = max((num_steps - 1) * memory.dof_share, 1.0)
    kurtosis = excess_kurtosis_of(table.of_step)
    if kurtosis > math.sqrt(24 / num_steps):
        dof = kurtosis_dof(dof, kurtosis, num_steps)
    return MeanSquare(table.step_square / square / lowered, dof)


def _error_of_mean(
    table: TwoWay,
    observed: Observed,
    square: float,
    num_kinds: int,
    rests: tuple[MeanSquare, MeanSquare],
    steps_memory: Memory,
) -> tuple[float, float]:
    """Standard error of the mean of all cells, and its degrees of freedom.

    The mean squares of ranks (of nodes' means, where nodes are known) and of steps, each by its
    number, hold the rest once too often, by next to nothing.
    """
    between, noise = rests
    num_ranks, num_steps = len(table.of_rank), len(table.of_step)
    steps = _steps_square(table, square, steps_memory)
    found = [(steps.value * steps_memory.inflation / num_steps, steps.dof)]
    nested = _nested_nodes(table.of_rank, observed, num_kinds)
    if nested is not None and observed.nodes is not None:
        means = nested[1]
        _, sizes = np.unique(observed.nodes, return_counts=True)
        weight = float((sizes**2).sum()) / num_ranks**2
        found.append((means.value / square * weight, means.dof))
    elif num_ranks > num_kinds:
        ranks = table.rank_square / square / num_ranks
        found.append((ranks, _tailed(num_ranks - num_kinds, table.of_rank)))
    else:
        found.append((noise.value / num_ranks, between.dof))
    return math.sqrt(sum(variance for variance, _ in found)), combined_dof(found)
