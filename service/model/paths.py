"""Paths into a scenario: which field they name, and which columns they set."""

import re
from typing import Any

from service.model.distributions import Normal
from service.model.fields import Fixed, Scenario, SlowGroup

REFUSED = ("seed", "draws", "period_days")

TOUCHED: dict[str, tuple[str, ...]] = {
    "num_gpus": ("num_gpus",),
    "load_ms": ("load_ms",),
    "compute_ms": ("compute_ms",),
    "communication": ("allreduce_ms",),
    "communication.allreduce_ms": ("allreduce_ms",),
    "slow_groups": ("slow_count", "slow_speed"),
    "variability": ("transient_family", "transient_cv"),
    "variability.transient": ("transient_family", "transient_cv"),
    "variability.transient.kind": ("transient_family",),
    "variability.transient.cv": ("transient_cv",),
}
"""Columns that a path sets, for the paths that have no position in them."""

GROUP_TOUCHED: dict[str, tuple[str, ...]] = {
    "": ("slow_count", "slow_speed"),
    "count": ("slow_count",),
    "speed_fraction": ("slow_speed",),
}

BARRIER_COLUMNS = frozenset(
    {"num_gpus", "slow_count", "slow_speed", "transient_family", "transient_cv"}
)
"""Columns that the slowest factor depends on."""

_LEAVES: dict[str, tuple[type, str]] = {
    "num_gpus": (Scenario, "num_gpus"),
    "load_ms": (Scenario, "load_ms"),
    "compute_ms": (Scenario, "compute_ms"),
    "communication.allreduce_ms": (Fixed, "allreduce_ms"),
    # The bounds of cv are those of every family; what only one refuses is a rule of points.
    "variability.transient.cv": (Normal, "cv"),
}


_POSITION = re.compile(r"0|[1-9][0-9]{0,8}")


def position_of(part: str) -> int | None:
    """The position in an array that a part of a path is, else None; written in one way only."""
    return int(part) if _POSITION.fullmatch(part) else None


def group_of(path: str) -> int | None:
    """The slow group that `slow_groups.K…` names, else None."""
    parts = path.split(".", 2)
    return position_of(parts[1]) if parts[0] == "slow_groups" and len(parts) > 1 else None


def touched(path: str) -> tuple[str, ...] | None:
    """Columns that the path sets; None for a path that no scenario has."""
    if group_of(path) is None:
        return TOUCHED.get(path)
    return GROUP_TOUCHED.get(".".join(path.split(".")[2:]))


def leaf_type(path: str) -> Any | None:
    """The annotated type of a numeric leaf, None where the path names more than a number."""
    if path in _LEAVES:
        struct, name = _LEAVES[path]
        return struct.__annotations__[name]
    if group_of(path) is not None and path.count(".") == 2:  # slow_groups, position, leaf
        return SlowGroup.__annotations__.get(path.rsplit(".", 1)[-1])
    return None


def is_whole(path: str) -> bool:
    """Whether the leaf is a whole number."""
    return path == "num_gpus" or (group_of(path) is not None and path.endswith(".count"))
