"""Overlap beside a factor that all GPUs share in a step: what a cluster's step takes on average."""

from dataclasses import replace

import numpy as np

from service.model.exchange.lines import Lines
from service.model.exchange.shared_lines import SharedLines
from service.model.fleet import Fleet, Rows
from service.model.laws.law import Floats
from service.model.slowest.nodes import legendre
from service.model.slowest.scores import log_at, score_at

_SCORES = 257
_FARTHEST = 8.0
_NODES_BETWEEN = 4


def with_common_in_lines(fleet: Fleet) -> Fleet:
    """The fleet whose lines are averaged over the common factor, which stays for its noise."""
    common = fleet.common
    if common is None or not isinstance(fleet.lines, Lines):
        return fleet

    def scores(log_factor: Floats, rows: Rows) -> Floats:
        return score_at(common.part(rows), log_factor)

    def density(score: Floats) -> Floats:
        """(…, points) the factor at a score, times the normal density."""
        at = score[..., np.newaxis] * np.ones(fleet.num_points)
        normal = np.exp(-(score**2) / 2) / np.sqrt(2 * np.pi)
        found: Floats = np.exp(log_at(common, at)) * normal[..., np.newaxis]
        return found

    edges = np.linspace(-_FARTHEST, _FARTHEST, _SCORES)
    rule = legendre(_NODES_BETWEEN)
    width = edges[1] - edges[0]
    between = np.tensordot(
        rule.weights * width, density(edges[:-1] + width * rule.nodes[:, np.newaxis]), 1
    )
    beyond = np.concatenate(
        [np.cumsum(between[::-1], axis=0)[::-1], np.zeros((1, fleet.num_points))]
    )
    # What lies outside of these scores is less than the round-off of all.
    whole = beyond[0]
    lines = SharedLines(
        lines=fleet.lines,
        score_at=scores,
        rows=np.arange(fleet.num_points),
        score=edges,
        partial=beyond / whole,
        density=density(edges) / whole,
    )
    return replace(fleet, lines=lines)
