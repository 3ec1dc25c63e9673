"""From a fleet to the distribution of its slowest GPU, for points of one layout."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from service.model.fleet import Fleet
from service.model.laws.empirical import Table
from service.model.laws.law import Floats, rate_of
from service.model.laws.source import Source
from service.model.slowest.blocks import (
    Blocks,
    Copies,
    expected_blocks,
    node_compositions,
    sharing,
    tabulated,
)
from service.model.slowest.episodes import states_of
from service.model.slowest.exceedance import exceeded_by_more
from service.model.slowest.layouts import Layout, sources_of_blocks, sources_of_one
from service.model.slowest.placements import below_over_placements, is_worth_it
from service.model.slowest.rank_law import RankLaw, no_source, product_law, summed_law
from service.model.slowest.step_quadrature import Above, Steps
from service.model.slowest.zones import Copy, zones_of

_FAR_TAIL = 1e-9
_PARTS_WITH_PIECES = 4


class Classes(NamedTuple):
    """GPUs by class; with episodes every class is there twice, healthy and in an episode.

    num_gpus  (states, classes, points), weight (states, points) of each state in time
    log_mean  (classes, points)
    """

    num_gpus: Floats
    weight: Floats
    log_mean: Floats


def classes_of(fleet: Fleet) -> Classes:
    """The classes that some point has."""
    held = (fleet.num_gpus > 0).any(axis=1)
    num_gpus = fleet.num_gpus[held]
    log_mean = np.log(np.where(num_gpus > 0, fleet.mean[held], 1))
    if fleet.episodes is None:
        return Classes(num_gpus[np.newaxis], np.ones((1, fleet.num_points)), log_mean)
    states = states_of(num_gpus, fleet.episodes)
    slower = log_mean + np.log(fleet.episodes.severity)
    return Classes(states.num_gpus, states.weight, np.concatenate([log_mean, slower]))


def steps_of(fleet: Fleet, layout: Layout, classes: Classes) -> Steps:
    """The distribution of the slowest factor, the common one left out."""
    own = sources_of_one(fleet, layout) or [no_source(fleet.num_points)]
    shared = sources_of_blocks(fleet, layout)
    ranks = (product_law if shared else summed_law)(own)._replace(
        log_mean=classes.log_mean, spikes=fleet.spikes
    )
    parts = Blocks(np.eye(len(classes.log_mean)), ranks.kinds())
    num_gpus = np.moveaxis(classes.num_gpus, 1, 0)
    sources, counts, together = own, num_gpus, 1
    for source, size in shared:
        if together > 1:
            parts = tabulated(parts, Copies(sources, ranks.shifts()))
        sources, together = [*sources, source], size
        last_size = layout.last_size if source is fleet.node else 0
        compositions = node_compositions(len(num_gpus), size, last_size)
        counts = expected_blocks(compositions, num_gpus, size)
        held = counts.reshape(len(counts), -1).any(axis=1)
        compositions, counts = compositions[held], counts[held]
        parts = sharing(source, parts, compositions, Copies(sources, ranks.shifts()))
    breaks = zones_of(sources, _copies(fleet, classes), together, fleet.num_backup)
    weight = classes.weight
    if layout.backup:
        above_backup = _above_of_backup(fleet, ranks, classes.num_gpus)
        return Steps(above_backup, weight, breaks, _num_parts(sources))

    def above(v: Floats) -> Floats:
        rates = rate_of(parts.kinds.survivals(v))
        found = _above(rates, counts)
        if together > 1 and len(num_gpus) == 2 and layout.last_size % 1 == 0:
            _place_exactly(found, np.exp(-rates), parts.compositions, classes, together)
        return found

    return Steps(above, weight, breaks, _num_parts(sources))


def _num_parts(sources: Sequence[Source]) -> int:
    """Shorter panels where a table's corners remain."""
    return _PARTS_WITH_PIECES if any(isinstance(one.law, Table) for one in sources) else 1


def _place_exactly(
    above: Floats, below: Floats, compositions: Floats, classes: Classes, block_size: int
) -> None:
    """Two classes on random places without approximation, (states, rows, points), in place.

    In the far tail the expected compositions stay: they are exact there but for a few per cent,
    and a difference from 1 would be round-off.
    """
    states = zip(above, classes.num_gpus, classes.weight, strict=True)
    for state, of_state, weight in states:
        chosen = np.flatnonzero(is_worth_it(of_state, weight, block_size))
        if len(chosen) > 0:
            part = below_over_placements(
                below[..., chosen], compositions, of_state[:, chosen], block_size
            )
            expected = state[:, chosen]
            state[:, chosen] = np.where(expected < _FAR_TAIL, expected, 1 - part)


def _above(rates: Floats, counts: Floats) -> Floats:
    """(states, ..., points): some kind of block exceeds; rates (kinds, ..., points)."""
    num_states, num_points = counts.shape[1:]
    total = np.zeros((num_states, *rates.shape[1:]))
    spread = (num_states, *(1,) * (rates.ndim - 2), num_points)
    for rate, of_kind in zip(rates, counts, strict=True):
        total += of_kind.reshape(spread) * rate
    np.minimum(-total, 0, out=total)
    above: Floats = np.negative(np.expm1(total, out=total), out=total)
    return above


def _above_of_backup(fleet: Fleet, ranks: RankLaw, num_gpus: Floats) -> Above:
    def above(v: Floats) -> Floats:
        survival = np.minimum(ranks.survivals(v), 1)
        found = [exceeded_by_more(survival, state, fleet.num_backup) for state in num_gpus]
        return np.array(found)

    return above


def _copies(fleet: Fleet, classes: Classes) -> list[Copy]:
    """Every class, and every class in a spike."""
    least, most = classes.num_gpus.min(axis=0), classes.num_gpus.max(axis=0)
    copies = [
        Copy(shift, fewest, highest)
        for shift, fewest, highest in zip(classes.log_mean, least, most, strict=True)
    ]
    if fleet.spikes is None:
        return copies
    probability, further = fleet.spikes.probability, np.log(fleet.spikes.slowdown)
    spiked = [
        Copy(copy.shift + further, copy.least * probability, copy.most * probability)
        for copy in copies
    ]
    return copies + spiked
