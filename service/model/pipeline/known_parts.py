"""What is known exactly of a cluster that has to be simulated: that its GPUs are slow or not.

Slow groups on random places and spikes, or else episodes, alone, with the same random numbers: what
they do to a step varies much from draw to draw and has a known expectation, which steadies the mean
of the simulation (a control variate).
"""

from dataclasses import replace

import numpy as np

from service.model.fleet import Fleet
from service.model.pipeline.one_cluster import OneCluster, clusters_of
from service.model.pipeline.replica_states import is_exact, kinds_of, spells_of
from service.model.pipeline.shape import RANDOM


def known_parts(cluster: OneCluster) -> list[OneCluster]:
    """The cluster with these alone: together, or else one by one, as far as they are worked out."""
    shape, fleet = replace(cluster.shape, jitter=None), cluster.fleet
    nowhere = replace(shape, slow_count=np.zeros_like(shape.slow_count))
    alone = replace(
        fleet, transient=None, persistent=None, node=None, replica=None, common=None, spikes=None
    )
    if fleet.episodes is not None:
        placed = np.where(shape.slow_placement == RANDOM, 0, shape.slow_count)
        fleets = [replace(alone, pipeline=replace(shape, slow_count=placed))]
        others = [replace(alone, pipeline=nowhere)]
    else:
        spikes = fleet.spikes if shape.round_steps[0] == 1 else None
        fleets = [replace(alone, pipeline=shape, spikes=spikes)]
        others = [replace(alone, pipeline=nowhere, spikes=spikes), replace(alone, pipeline=shape)]
    return _worked_out(fleets) or _worked_out(others)


def spikes_alone(cluster: OneCluster) -> OneCluster | None:
    """The cluster with nothing but its spikes; None if there are none, or it is not worked out."""
    if cluster.fleet.spikes is None or cluster.shape.round_steps[0] > 1:
        return None
    return next(iter(_worked_out([only_spikes(cluster)])), None)


def only_spikes(cluster: OneCluster) -> Fleet:
    """The fleet with nothing but the spikes that it has."""
    shape = cluster.shape
    return replace(
        cluster.fleet,
        transient=None,
        persistent=None,
        node=None,
        replica=None,
        common=None,
        episodes=None,
        pipeline=replace(shape, jitter=None, slow_count=np.zeros_like(shape.slow_count)),
    )


def _worked_out(fleets: list[Fleet]) -> list[OneCluster]:
    """Of these points those that are, and in which something varies."""
    parts = [part for fleet in fleets for part in clusters_of(fleet)]
    varying = [
        part for part in parts if len(kinds_of(part).number) or len(spells_of(part).factor) > 1
    ]
    return [part for part in varying if is_exact(part)]
