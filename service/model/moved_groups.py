"""Where slow GPUs of a stage sit when the same GPUs make up a pipeline of other sizes.

Stage s of P has the share [s / P, (s + 1) / P) of the layers, and stage k of P' [k / P',
(k + 1) / P'). GPUs go with the layers: N times what both have in common is how many GPUs of stage
s go to stage k. These are whole numbers where N / P and N / P' are, with the sums N / P over k and
N / P' over s. Slow GPUs are divided in the same proportion, each part rounded up or down. So they
find room in every new stage, however many stages send theirs there.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Any

from service.model.fields import SlowGroup

Group = dict[str, Any]


def moved_groups(groups: Sequence[SlowGroup], stages: int, after: int) -> list[Group] | None:
    """The slow groups of `stages`, at the stages of `after`; None where none has to move.

    A group becomes one for each new stage that gets some of it; those of one speed at one stage are
    joined. Where a stage has several groups, all of them together are divided first.
    """
    by_stage: dict[int, int] = {}
    for group in groups:
        if isinstance(group.placement, int):
            by_stage[group.placement] = by_stage.get(group.placement, 0) + group.count
    if stages == after or not by_stage:
        return None
    room = {
        stage: apportioned(count, shares_of(stage, stages, after))
        for stage, count in by_stage.items()
    }
    found: list[Group] = []
    joined: dict[tuple[float, int], Group] = {}
    for group in groups:
        if not isinstance(group.placement, int):
            found.append(_group(group.count, group.speed_fraction, group.placement))
            continue
        left = room[group.placement]
        for stage, count in apportioned(group.count, left).items():
            left[stage] -= count
            key = (group.speed_fraction, stage)
            if key in joined:
                joined[key]["count"] += count
            elif count:
                joined[key] = _group(count, group.speed_fraction, stage)
                found.append(joined[key])
    return found


def shares_of(stage: int, stages: int, after: int) -> dict[int, Fraction]:
    """The stages of `after` that have layers of a stage of `stages`, and what share of them."""
    first, last = stage * after // stages, ((stage + 1) * after - 1) // stages
    return {
        new: Fraction(min((stage + 1) * after, (new + 1) * stages), after)
        - Fraction(max(stage * after, new * stages), after)
        for new in range(first, last + 1)
    }


def apportioned(count: int, weights: Mapping[int, Fraction | int]) -> dict[int, int]:
    """`count` in proportion to weights, by largest remainders; of equal ones the middle is first.

    No part is above its weight where `count` is no more than all weights, which are whole.
    """
    whole = sum(weights.values())
    exact = {stage: Fraction(count * weight) / whole for stage, weight in weights.items()}
    found = {stage: floor(part) for stage, part in exact.items()}
    middle = sum(weights) / len(weights)

    def rank(stage: int) -> tuple[Fraction, float, int]:
        return found[stage] - exact[stage], abs(stage - middle), -stage

    for stage in sorted(weights, key=rank)[: count - sum(found.values())]:
        found[stage] += 1
    return found


def _group(count: int, speed: float, placement: int | str) -> Group:
    return {"count": count, "speed_fraction": speed, "placement": placement}
