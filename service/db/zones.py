"""What a block can contain, from its zone maps alone: may it match, how early can it sort."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from msgspec import Struct

from service.db.blocks import ZoneRow
from service.db.conditions import ITEM, BatchRef, Derived, Filter


class Zone(Struct, frozen=True, kw_only=True):
    """Bounds of a column in a block; the bounds mean nothing where there are no values."""

    lowest: float
    highest: float
    has_values: bool
    has_nulls: bool

    @property
    def constant(self) -> float | None:
        """The one value that all rows have, where that is known."""
        same = self.has_values and not self.has_nulls and self.lowest == self.highest
        return self.lowest if same else None


ABSENT = Zone(lowest=math.nan, highest=math.nan, has_values=False, has_nulls=True)
Zones = Mapping[str, Zone]
# Whether a value between lowest and highest can stand in the relation to the bound.
REACH: dict[str, Callable[[float, float, float], bool]] = {
    "eq": lambda lowest, highest, bound: lowest <= bound <= highest,
    "ne": lambda lowest, highest, bound: not lowest == bound == highest,
    "lt": lambda lowest, _, bound: lowest < bound,
    "le": lambda lowest, _, bound: lowest <= bound,
    "gt": lambda _, highest, bound: highest > bound,
    "ge": lambda _, highest, bound: highest >= bound,
}


def zone_of(row: ZoneRow) -> Zone:
    """The stored zone map as bounds."""
    if row.minimum is None or row.maximum is None:
        return ABSENT
    return Zone(
        lowest=row.minimum,
        highest=row.maximum,
        has_values=True,
        has_nulls=row.num_nulls > 0,
    )


def column_zone(ref: BatchRef, stored: Zones, name: str) -> Zone:
    """The bounds of a stored or derived column; a column that is not stored is null."""
    if name in ref.constants:
        value = ref.constants[name]
        return Zone(lowest=value, highest=value, has_values=True, has_nulls=False)
    derived = ref.derived.get(name)
    if derived is None:
        return stored.get(name, ABSENT)
    return _derived_zone(derived, stored.get(derived.source, ABSENT), stored.get(ITEM, ABSENT))


def may_match(ref: BatchRef, stored: Zones, filters: tuple[Filter, ...]) -> bool:
    """Whether a row of the block can match; False is certain, True is not."""
    if ref.items is not None and not _may_hold_items(ref.items, stored.get(ITEM, ABSENT)):
        return False
    return all(
        _may_match(column_zone(ref, stored, condition.column), condition) for condition in filters
    )


def earliest_key(zone: Zone, *, descending: bool) -> float:
    """The smallest sort key that a row can have; null sorts as infinity."""
    if not zone.has_values:
        return math.inf
    return -zone.highest if descending else zone.lowest


def latest_key(zone: Zone, *, descending: bool) -> float:
    """The greatest sort key that a row can have; null sorts as infinity."""
    if zone.has_nulls:
        return math.inf
    return -zone.lowest if descending else zone.highest


def _derived_zone(derived: Derived, source: Zone, items: Zone) -> Zone:
    if not source.has_values or not items.has_values:
        return ABSENT
    factors = derived.factors[int(items.lowest) : int(items.highest) + 1]
    valid = factors[np.isfinite(factors)]
    if not len(valid):
        return ABSENT
    ends = (float(valid.min()), float(valid.max()))
    corners = [bound * factor for bound in (source.lowest, source.highest) for factor in ends]
    if derived.digits is not None:
        # Rounding keeps the order, so the rounded ends bound the rounded values.
        corners = np.round(corners, derived.digits).tolist()
    return Zone(
        lowest=min(corners),
        highest=max(corners),
        has_values=True,
        has_nulls=source.has_nulls
        or len(valid) < len(factors)
        or not all(math.isfinite(corner) for corner in corners),
    )


def _may_hold_items(items: tuple[int, ...], zone: Zone) -> bool:
    return zone.has_values and any(zone.lowest <= item <= zone.highest for item in items)


def _may_match(zone: Zone, condition: Filter) -> bool:
    if condition.operator == "is_null":
        return zone.has_nulls if condition.value else zone.has_values
    if not zone.has_values:
        return False
    return REACH[condition.operator](zone.lowest, zone.highest, float(condition.value))
