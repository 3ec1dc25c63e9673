"""The random factors of single ranks in one reproducible step.

The draw of a rank depends on the seed, the source of variability and the rank (its node, its
replica) alone, so it stays when the cluster grows, when slow groups change and whatever else is
computed. Slow groups take the ranks from 0 on, in the order in which they are listed; those of a
pipeline that are placed are so in `drawn_pipelines.py`.
"""

from collections.abc import Callable

import numpy as np

from service.model.active import HOURS_PER_DAY
from service.model.distributions import Distribution, Law, LogNormal, Normal, law_and_shape
from service.model.fields import Scenario
from service.model.laws.law import Floats
from service.model.slowest.barrier import SMALLEST_CV
from service.model.slowest.many_quantiles import QuantileTable
from service.model.uniforms import upper_uniforms

TRANSIENT, PERSISTENT, NODE, REPLICA, COMMON, SPIKES, EPISODES, JITTER = range(1, 9)
"""Numbers of the sources in the generator's key; each source has its own, for ever."""

CHUNK_RANKS = 1 << 18
# Above so many, a table of quantiles is cheaper than the quantiles, unless they are those of the
# normal distribution.
MANY_RANKS = 100_000


def first_ranks_slow(scenario: Scenario) -> Floats:
    """(ranks,) speeds, spares included: slow groups take the first ranks, as they are listed."""
    speed = np.ones(scenario.num_gpus + scenario.num_spare_gpus)
    groups = scenario.slow_groups
    slow = np.repeat([group.speed_fraction for group in groups], [group.count for group in groups])
    speed[: len(slow)] = slow
    return speed


def lasting_factors(scenario: Scenario, speed: Floats) -> Floats:
    """(ranks,) the factors that last: 1 / speed, persistent, node; spares included."""
    lasting = 1 / speed
    variability = scenario.variability
    _multiply(lasting, scenario.seed, PERSISTENT, variability.persistent, 1)
    _multiply(lasting, scenario.seed, NODE, variability.node, scenario.gpus_per_node)
    return lasting


def step_factors(scenario: Scenario, num_ranks: int) -> Floats:
    """(ranks,) the factors of this step but those of replicas: transient, common, spikes, episodes.

    Spares are among the ranks.
    """
    factors = np.ones(num_ranks)
    variability, seed = scenario.variability, scenario.seed
    _multiply(factors, seed, TRANSIENT, variability.transient, 1)
    _multiply(factors, seed, COMMON, variability.common, num_ranks)
    spikes, episodes = variability.spikes, variability.episodes
    if spikes is not None:
        hit = upper_uniforms(seed, SPIKES, 0, num_ranks) < spikes.probability
        factors[hit] *= spikes.slowdown
    if episodes is not None:
        days = episodes.rate_per_gpu_day * episodes.mean_hours / HOURS_PER_DAY
        factors[upper_uniforms(seed, EPISODES, 0, num_ranks) < -np.expm1(-days)] *= (
            episodes.severity
        )
    return factors


def replica_factors(scenario: Scenario, num_ranks: int, shared_by: int) -> Floats:
    """(ranks,) the factor of each rank's replica in this step; `shared_by` ranks are one."""
    factors = np.ones(num_ranks)
    _multiply(factors, scenario.seed, REPLICA, scenario.variability.replica, shared_by)
    return factors


def _multiply(
    factors: Floats, seed: int, source: int, given: Distribution | None, shared_by: int
) -> None:
    """Multiply by the draws of a source that `shared_by` ranks share, in place.

    In chunks, so that only the result grows with the cluster.
    """
    if given is None:
        return
    law, shape = law_and_shape(given)
    if shape[0, 0] == 0:
        return
    num_draws = -(-len(factors) // shared_by)
    quantile = factor_quantile(law, shape, num_draws)
    for start in range(0, num_draws, CHUNK_RANKS):
        stop = min(start + CHUNK_RANKS, num_draws)
        # A normal factor of a large cv is below 0 once in thousands; no compute time is.
        drawn = np.maximum(quantile(upper_uniforms(seed, source, start, stop)), 0)
        ranks = slice(start * shared_by, stop * shared_by)
        if shared_by > 1:
            drawn = np.repeat(drawn, shared_by)[: len(factors[ranks])]
        factors[ranks] *= drawn


def factor_quantile(law: Law, shape: Floats, num_draws: int) -> Callable[[Floats], Floats]:
    """The factor of the uniform number q: exact, or from a table that agrees within 1e-10."""
    shape = np.maximum(shape, np.array([[SMALLEST_CV], [0.0]]))
    if num_draws > MANY_RANKS and law not in (Normal, LogNormal):
        return QuantileTable(law, shape).upper_quantile
    return lambda q: law.upper_quantile(q, shape)
