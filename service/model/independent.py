"""How many independent draws there are of each source: not always the number of GPUs."""

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet


def independent_draws(fleet: Fleet) -> dict[str, NDArray[np.int64]]:
    """(points,) of each source that the fleet has, among the GPUs that take part.

    A tensor-parallel group shares its replica's draw, a node its own (a last, smaller node counts),
    everybody the common one.
    """
    ranks = np.rint(fleet.num_gpus.sum(axis=0)).astype(np.int64) - fleet.num_removed
    per_source = {
        "persistent": ranks,
        "node": -(-ranks // fleet.gpus_per_node),
        "transient": ranks,
        "replica": -(-ranks // fleet.tensor_parallel_size),
        "common": np.ones_like(ranks),
        "spikes": ranks,
        "episodes": ranks,
    }
    return {name: n for name, n in per_source.items() if getattr(fleet, name) is not None}
