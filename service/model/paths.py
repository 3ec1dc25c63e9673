"""Paths into a scenario: which field they name, and which columns they set."""

import re
from functools import lru_cache
from typing import Any

from service.model.leaves import Leaf, leaves

REFUSED = ("seed", "draws", "period_days")

_OUTSIDE_THE_WINDOW = ("total_steps", "period_days")
_OUTSIDE_THE_BARRIER = (
    "load_ms",
    "compute_ms",
    "communication",
    "scaling",
    "failures",
    *_OUTSIDE_THE_WINDOW,
)

_POSITION = re.compile(r"0|[1-9][0-9]{0,8}")


def position_of(part: str) -> int | None:
    """The position in an array that a part of a path is, else None; written in one way only."""
    return int(part) if _POSITION.fullmatch(part) else None


def group_of(path: str) -> int | None:
    """The slow group that `slow_groups.K…` names, else None."""
    parts = path.split(".", 2)
    return position_of(parts[1]) if parts[0] == "slow_groups" and len(parts) > 1 else None


@lru_cache(maxsize=1024)
def touched(path: str) -> tuple[str, ...] | None:
    """Columns that the path sets; None for a path that no scenario has."""
    name = _without_position(path)
    leaf = leaves().get(name)
    if leaf is not None:
        named_as_it_lies = leaf.in_list == (name != path)
        return (name,) if leaf.can_be_set and named_as_it_lies else None
    return tuple(leaf for leaf in leaves() if leaf.startswith(f"{name}.")) or None


def leaf_of(path: str) -> Leaf | None:
    """The leaf that the path names, None where it names none or more than one."""
    if touched(path) is None:
        return None
    return leaves().get(_without_position(path))


def leaf_type(path: str) -> Any | None:
    """The annotated type of a numeric leaf, None where the path names more than numbers."""
    leaf = leaf_of(path)
    is_numeric = leaf is not None and (leaf.is_number or leaf.is_number_or_list)
    return leaf.type if leaf is not None and is_numeric else None


def is_whole(path: str) -> bool:
    """Whether the leaf is a whole number."""
    leaf = leaf_of(path)
    return leaf is not None and leaf.is_whole


def moves_the_barrier(column: str) -> bool:
    """Whether the expected slowest factor depends on the column."""
    return column.split(".", 1)[0] not in _OUTSIDE_THE_BARRIER


def moves_the_step(column: str) -> bool:
    """Whether the length of a step, or its spread, depends on the column."""
    return column.split(".", 1)[0] not in _OUTSIDE_THE_WINDOW


def _without_position(path: str) -> str:
    """`slow_groups.3.count` as `slow_groups.count`; others as they are."""
    if group_of(path) is None:
        return path
    parts = path.split(".")
    return ".".join([parts[0], *parts[2:]])
