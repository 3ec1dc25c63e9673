"""Rounds of several steps between two barriers: what a GPU's factor is on average over one."""

from dataclasses import replace

import numpy as np

from service.model.fleet import Fleet
from service.model.laws.averages import averaged


def with_round_means(fleet: Fleet) -> Fleet:
    """The fleet whose factors of a step are their means over the round; others as they are.

    Points of one key of `laws.averages.average_keys`. From one round to the next nothing is
    remembered: autocorrelation enters within a round only.
    """
    if fleet.round_steps is None:
        return fleet
    forgotten = np.zeros(fleet.num_points)
    source = fleet.transient or fleet.replica
    correlation = forgotten if fleet.transient is None else fleet.autocorrelation
    means = averaged(source, fleet.spikes, fleet.round_steps, correlation)
    return replace(
        fleet,
        transient=means.source,
        replica=None,
        spikes=None,
        mean=fleet.mean * means.mean,
        autocorrelation=forgotten,
        round_steps=None,
    )
