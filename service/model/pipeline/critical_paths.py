"""The longest chain of a pass: its length, and how often it crosses from rank to rank."""

from typing import NamedTuple

from service.model.laws.law import Floats
from service.model.pipeline.plan import Plan
from service.model.pipeline.tables import Lanes, evaluated


class Chains(NamedTuple):
    """(lanes,) makespan in ms and crossings of a chain of operations that is that long."""

    makespan: Floats
    crossings: Floats


def longest_chains(
    plan: Plan, forward: Floats, backward: Floats, *, weight_fraction: Floats, p2p: Floats
) -> Chains:
    """Arguments as of `engine.makespans`; of chains of the same length that with most crossings."""
    lanes = Lanes(forward, backward, weight_fraction, p2p + 1j, None, None)
    last = evaluated(plan, lanes)
    return Chains(last.real, last.imag)
