"""The spread over clusters on random scenarios: z of the mean, and brute force for its shape.

Run as `python -m tests.soak.spread_scenarios`; prints two tables for the model page.
"""

from typing import Any

import numpy as np

from service.model.fleet import Fleet, Spikes
from service.model.slowest.pooled import pooled_slowest
from tests.benchmarks.results_table import markdown_table
from tests.model.brute_clusters import (
    OUTSIDE_RATIO,
    cluster_means,
    fleet,
    frozen,
    sd_and_error,
    source,
    spread,
)

NUM_SCENARIOS = 20
DRAWS = 512
NUM_CLUSTERS = 500
FAMILIES = ("normal", "lognormal", "gamma", "weibull", "pareto", "exponential")
STRUCTURES = (
    ("persistent", "transient"),
    ("persistent", "transient", "spikes"),
    ("persistent", "transient", "replica"),
    ("persistent", "transient", "slow group"),
    ("node", "transient"),
    ("node", "persistent", "transient"),
    ("node", "persistent", "transient", "slow group"),
    ("node", "persistent", "transient", "replica of 4"),
)
BRUTE = (
    ("normal", 0.05, 0.05, 1024),
    ("normal", 0.01, 0.05, 1024),
    ("lognormal", 0.03, 0.05, 1024),
    ("gamma", 0.1, 0.05, 1024),
    ("weibull", 0.1, 0.1, 1024),
    ("pareto", 0.1, 0.05, 1024),
    ("pareto", 0.3, 0.3, 1024),
    ("normal", 0.03, 0.05, 8192),
)


def main() -> None:
    """Both tables."""
    print(markdown_table([z_of(structure) for structure in STRUCTURES]))
    print(markdown_table([shape_of(*case) for case in BRUTE]))


def z_of(structure: tuple[str, ...]) -> dict[str, str]:
    """z of the mean over clusters against the pooled quadrature; Student's t of 7 degrees."""
    rng = np.random.default_rng(len(" ".join(structure)))
    z, relative = [], []
    for seed in range(NUM_SCENARIOS):
        of = random_fleet(rng, structure)
        found, exact = spread(of, seed=seed, draws=DRAWS), pooled_slowest(of).mean[0]
        z.append((found.mean[0] - exact) / found.mean_se[0])
        relative.append(found.mean_se[0] / (found.reciprocal_sd[0] * (OUTSIDE_RATIO + exact) ** 2))
    values = np.array(z)
    return {
        "sources": ", ".join(structure),
        "mean of z": f"{values.mean():+.2f}",
        "sd of z (t of 7: 1.18)": f"{values.std():.2f}",
        "largest": f"{np.abs(values).max():.1f}",
        "standard error / sd between clusters": f"{np.median(relative):.3f}",
    }


def random_fleet(rng: np.random.Generator, structure: tuple[str, ...]) -> Fleet:
    """Of these sources: families, spreads and size at random."""
    given: dict[str, Any] = {}
    for name in ("persistent", "transient", "node"):
        if name in structure:
            cv = float(np.exp(rng.uniform(np.log(0.01), np.log(0.2))))
            given[name] = source(str(rng.choice(FAMILIES)), cv)
    if "spikes" in structure:
        given["spikes"] = Spikes(
            probability=10 ** rng.uniform(-6, -3, 1), slowdown=rng.uniform(1.1, 2, 1)
        )
    if "replica" in structure or "replica of 4" in structure:
        given["replica"] = source(str(rng.choice(FAMILIES)), float(rng.uniform(0.01, 0.1)))
        given["tensor_parallel_size"] = 4 if "replica of 4" in structure else 1
    size = 8.0 * float(np.exp(rng.uniform(0, np.log(1e5))).round())
    if "slow group" in structure:
        slow = float(rng.integers(1, 9))
        return fleet((size, slow), (1.0, float(rng.uniform(1, 1.3))), **given)
    return fleet((size,), **given)


def shape_of(family: str, persistent: float, transient: float, num_gpus: int) -> dict[str, str]:
    """Against clusters drawn whole."""
    rng = np.random.default_rng(num_gpus)
    law = frozen(family, persistent)
    wanted = np.concatenate(
        [
            cluster_means(law.rvs(size=(1, num_gpus), random_state=rng), frozen(family, transient))
            for _ in range(NUM_CLUSTERS)
        ]
    )
    of = fleet(
        (float(num_gpus),),
        persistent=source(family, persistent),
        transient=source(family, transient),
    )
    found = spread(of, seed=1, draws=8192)
    sd, error = sd_and_error(wanted)
    ratio = found.reciprocal_sd[0] / (1 / (OUTSIDE_RATIO + wanted)).std()
    away = (found.quantiles[0] - np.quantile(wanted, [0.1, 0.5, 0.9])) / sd
    return {
        "clusters": f"{family} {persistent:g} / {transient:g}, N = {num_gpus:,}",
        "mean off, sd": f"{(found.mean[0] - wanted.mean()) / sd:+.3f} ± {NUM_CLUSTERS**-0.5:.3f}",
        "sd ratio": f"{ratio:.3f} ± {error:.3f}",
        "p10, p50, p90 off, sd": ", ".join(f"{value:+.2f}" for value in away),
    }


if __name__ == "__main__":
    main()
