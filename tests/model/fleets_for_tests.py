"""Fleets of a few points, written down shortly."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.model.distributions import Gamma, Law, LogNormal, Normal
from service.model.fleet import Episodes, Fleet, Spikes
from service.model.laws.source import Source

LAW_OF: dict[str, Law] = {"normal": Normal, "lognormal": LogNormal, "gamma": Gamma}
SOURCES = ("persistent", "transient", "node", "replica", "common")

Classes = Sequence[tuple[float, float]]
Factor = tuple[str, float]


def source(factor: Factor, num_points: int = 1) -> Source:
    """One factor of the given family and cv at every point."""
    kind, cv = factor
    shape = np.stack([np.full(num_points, cv), np.zeros(num_points)])
    return Source(law=LAW_OF[kind], shape=shape)


def one_fleet(classes: Classes, **given: Any) -> Fleet:
    """One point. Sources as (family, cv); spikes and episodes as tuples; integers by name."""
    fields: dict[str, Any] = {
        name: source(given.pop(name)) for name in SOURCES if given.get(name) is not None
    }
    spikes, episodes = given.pop("spikes", None), given.pop("episodes", None)
    if spikes is not None:
        probability, slowdown = spikes
        fields["spikes"] = Spikes(
            probability=np.array([probability]), slowdown=np.array([slowdown])
        )
    if episodes is not None:
        occupancy, severity = episodes
        fields["episodes"] = Episodes(
            occupancy=np.array([occupancy]),
            severity=np.array([severity]),
            mean_hours=np.array([1.0]),
        )
    whole = {"gpus_per_node": 8, "tensor_parallel_size": 1, "num_removed": 0, "num_backup": 0}
    for name, default in whole.items():
        fields[name] = np.array([given.pop(name, default)], dtype=np.int64)
    fields["outside_ratio"] = np.array([given.pop("outside_ratio", 0.3)])
    present = {name: value for name, value in given.items() if value is not None}
    assert not present, f"no such field: {present}"
    counts, means = np.array(classes, dtype=float).T
    return Fleet(
        num_gpus=counts[:, np.newaxis],
        mean=means[:, np.newaxis],
        autocorrelation=np.zeros(1),
        **fields,
    )
