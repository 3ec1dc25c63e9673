"""A scenario and its remedies as the points of a grid: point 0 is the scenario as it is.

So a batch stores, prices, exports and compares them like any other points. The two axes advance
together and are no paths of a scenario: `remedy` names the kind, `remedy_setting` how much of it,
both null at point 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.model.axis_values import AxisValues
from service.model.columns import columns_of, joined
from service.model.fields import Scenario
from service.model.grid import Dimension, Grid
from service.model.leaves import leaves
from service.model.remedy.remedies import Change, change_of
from service.model.remedy.remedy_kinds import Remedy

AXES = ("remedy", "remedy_setting")
STORED = "remedies"
"""The one field of what stands in the place of the axes of a stored item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyGrid(Grid):
    """The grid of a scenario's remedies; `changes` (points - 1,)."""

    changes: tuple[Change, ...]

    def point_scenario(self, point: int) -> Scenario:
        """The whole scenario of one point; rules across fields may be broken in it."""
        return self.changes[point - 1].scenario if point else self.base

    def changed_leaves(self) -> tuple[str, ...]:
        """Paths of the inputs that any remedy changes."""
        return tuple(name for part in self.dimensions for name in part.touched)


def remedy_grid(base: Scenario, changes: Sequence[Change]) -> RemedyGrid:
    """The grid of the scenario and what is done about it."""
    remedies = [change.remedy for change in changes]
    length = 1 + len(changes)
    axes = (
        AxisValues(
            path=AXES[0],
            length=length,
            columns=_changing([base, *(change.scenario for change in changes)]),
            listed=(None, *(remedy.kind for remedy in remedies)),
        ),
        AxisValues(
            path=AXES[1],
            length=length,
            columns={},
            listed=(None, *(remedy.setting for remedy in remedies)),
        ),
    )
    return RemedyGrid(
        base=base,
        dimensions=(Dimension(axes=axes, length=length, stride=1),),
        num_points=length,
        warnings=(),
        changes=tuple(changes),
    )


def stored_axes(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """What is stored in the place of axes, so that the same points are computed at any time."""
    return [{STORED: [msgspec.to_builtins(change.remedy) for change in changes]}]


def stored_remedies(axes: Any) -> list[Remedy] | None:
    """The remedies stored in the place of axes; None where axes stand there."""
    if len(axes) != 1 or STORED not in axes[0]:
        return None
    return msgspec.convert(axes[0][STORED], list[Remedy])


def stored_grid(base: Scenario, remedies: Sequence[Remedy]) -> RemedyGrid:
    """The grid of an item that was stored."""
    return remedy_grid(base, [change_of(base, remedy) for remedy in remedies])


def _changing(scenarios: Sequence[Scenario]) -> dict[str, NDArray[Any]]:
    """The columns in which the scenarios differ, (points,) or (points, groups)."""
    table = joined([columns_of(scenario) for scenario in scenarios])
    return {name: table[name] for name in leaves() if _differ(table[name])}


def _differ(column: NDArray[Any]) -> bool:
    if column.ndim > 1:
        return bool((column != column[:1]).any())
    if column.dtype == object:
        # A table of quantiles is compared whole.
        return any(value != column[0] for value in column)
    # An absent number is NaN, and all of them are one value.
    return len(np.unique(column)) > 1
