"""One pipelined cluster with some of its sources alone, drawing the same random numbers."""

from dataclasses import replace
from typing import Any

import numpy as np

from service.model.fleet import Fleet
from service.model.pipeline.one_cluster import OneCluster, clusters_of
from service.model.pipeline.shape import RANDOM, PipelineShape

_LASTING: dict[str, Any] = {"persistent": None, "node": None}
_FLEETING: dict[str, Any] = {"transient": None, "replica": None, "common": None, "spikes": None}


def lasting_part(cluster: OneCluster) -> OneCluster:
    """Slow groups, `persistent` and `node`; all of its steps are alike."""
    steady = _steady(cluster.shape)
    return _cluster(replace(cluster.fleet, pipeline=steady, episodes=None, **_FLEETING))


def fleeting_part(cluster: OneCluster) -> OneCluster:
    """Slow groups that are placed, and what is drawn anew in each step; all clusters are alike."""
    placed = _without_random(cluster.shape)
    return _cluster(replace(cluster.fleet, pipeline=placed, episodes=None, **_LASTING))


def alike_part(cluster: OneCluster) -> OneCluster:
    """The cluster without what lasts for good and is random; all clusters are alike."""
    placed = _without_random(cluster.shape)
    return _cluster(replace(cluster.fleet, pipeline=placed, **_LASTING))


def episodes_part(cluster: OneCluster) -> OneCluster:
    """Slow groups that are placed, and episodes."""
    steady = _steady(_without_random(cluster.shape))
    return _cluster(replace(cluster.fleet, pipeline=steady, **_LASTING, **_FLEETING))


def _steady(shape: PipelineShape) -> PipelineShape:
    return replace(shape, jitter=None, round_steps=np.ones_like(shape.round_steps))


def _without_random(shape: PipelineShape) -> PipelineShape:
    return replace(shape, slow_count=np.where(shape.slow_placement == RANDOM, 0, shape.slow_count))


def _cluster(fleet: Fleet) -> OneCluster:
    (found,) = clusters_of(fleet)
    return found
