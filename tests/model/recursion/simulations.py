"""Simulations of one point, written down shortly."""

from typing import Any

import numpy as np

from service.model.fleet import Fleet
from service.model.recursion.pattern import Pattern, Rounds, Staleness
from service.model.recursion.simulate import simulate
from service.model.recursion.simulated import Simulated


def stale(staleness: int, delay: float = 0.0, load: float = 0.0) -> Staleness:
    """One point."""
    return Staleness(
        staleness=np.array([staleness]),
        delay_ratio=np.array([delay]),
        load_ratio=np.array([load]),
    )


def rounds(steps: int, part: float = 0.0, load: float = 0.0, **given: Any) -> Rounds:
    """One point; blocking if nothing else is given."""
    return Rounds(
        steps=np.array([steps]),
        fragments=np.array([given.get("fragments", 1)]),
        overlap_steps=np.array([given.get("overlap_steps", 0)]),
        release_fraction=np.array([given.get("release_fraction", 1.0)]),
        part_ratio=np.array([part]),
        load_ratio=np.array([load]),
    )


def simulated(fleet: Fleet, pattern: Pattern, seed: int = 0, draws: int = 1000) -> Simulated:
    """All points with this seed."""
    alike = np.full(fleet.num_points, 1)
    return simulate(fleet, pattern, seed * alike, draws * alike)


def deviation(found: Simulated, expected: float, expected_se: float = 0.0) -> float:
    """Of the first point, in standard errors."""
    return float((found.mean[0] - expected) / np.hypot(found.mean_se[0], expected_se))
