"""Tables of compute times whose truth is known, drawn by plain NumPy and none of the product."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.calibration.timings import Timings

Floats = NDArray[np.float64]
COMPUTE_MS = 300.0
NODE_SIZE = 4
REPLICA_SIZE = 2


class Kind(NamedTuple):
    """What a table is drawn from; cv of each source."""

    num_steps: int
    num_ranks: int
    law: str = "normal"
    persistent: float = 0.03
    node: float = 0.0
    common: float = 0.02
    replica: float = 0.0
    transient: float = 0.02
    phi: float = 0.0
    slow: tuple[float, ...] = ()
    missing: float = 0.0
    num_stages: int = 1


class Table(NamedTuple):
    """A table and what stays with its ranks: (ranks,) factors, slow ones first."""

    timings: Timings
    of_rank: Floats


def factors(rng: np.random.Generator, law: str, cv: float, scores: Floats) -> Floats:
    """Factors of mean 1 at normal scores."""
    if cv == 0:
        return np.ones_like(scores)
    if law == "normal":
        return 1 + cv * scores
    if law == "lognormal":
        log_sd = np.sqrt(np.log1p(cv * cv))
        return np.asarray(np.exp(log_sd * scores - log_sd**2 / 2))
    if law == "gamma":
        return rng.gamma(cv**-2, cv * cv, scores.shape)
    raise ValueError(law)


def remembered(rng: np.random.Generator, shape: tuple[int, int], phi: float) -> Floats:
    """Normal scores, (steps, ranks), each rank a stationary autoregression."""
    fresh = rng.standard_normal(shape)
    for step in range(1, shape[0] if phi else 0):
        fresh[step] = phi * fresh[step - 1] + np.sqrt(1 - phi * phi) * fresh[step]
    return fresh


def table_of(kind: Kind, seed: int) -> Table:
    """Draw one."""
    rng = np.random.default_rng(seed)
    num_steps, num_ranks = kind.num_steps, kind.num_ranks
    ranks = np.arange(num_ranks)
    nodes, replicas = ranks // NODE_SIZE, ranks // REPLICA_SIZE
    of_rank = factors(rng, kind.law, kind.persistent, rng.standard_normal(num_ranks))
    of_rank = (
        of_rank * factors(rng, kind.law, kind.node, rng.standard_normal(nodes.max() + 1))[nodes]
    )
    of_rank[: len(kind.slow)] /= kind.slow or 1.0
    cells = COMPUTE_MS * of_rank * cells_of(kind, rng, num_steps)
    stages = ranks % kind.num_stages
    cells *= 1 + 0.5 * stages
    cells[rng.random(cells.shape) < kind.missing] = np.nan
    timings = Timings(
        format="table",
        files=(),
        steps=np.arange(num_steps),
        ranks=ranks,
        compute_ms=cells,
        nodes=nodes if kind.node else None,
        replicas=replicas if kind.replica else None,
        stages=stages if kind.num_stages > 1 else None,
    )
    return Table(timings, of_rank)


def cells_of(kind: Kind, rng: np.random.Generator, num_steps: int) -> Floats:
    """What varies from step to step, (steps, ranks)."""
    replicas = np.arange(kind.num_ranks) // REPLICA_SIZE
    common = factors(rng, kind.law, kind.common, rng.standard_normal((num_steps, 1)))
    shared = factors(
        rng, kind.law, kind.replica, rng.standard_normal((num_steps, replicas.max() + 1))
    )
    scores = remembered(rng, (num_steps, kind.num_ranks), kind.phi)
    return common * shared[:, replicas] * factors(rng, kind.law, kind.transient, scores)
