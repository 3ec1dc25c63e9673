"""Columns of one scenario with single numbers of it moved."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NoReturn

import msgspec
import numpy as np

from service.model.axes import Axis
from service.model.columns import PLACEMENT, Columns
from service.model.fields import Scenario
from service.model.grid import build_grid
from service.model.leaves import Leaf
from service.model.parts.communication import Hierarchical, Nccl
from service.model.paths import (
    REFUSED,
    group_of,
    leaf_of,
    moves_the_barrier,
    moves_the_step,
    touched,
)
from service.model.problems import InvalidScenario, Problem

OF_STAGES = ("pipeline.forward_ms", "pipeline.backward_ms")
"""One number for all stages, or one for each."""
Number = int | float
Move = tuple[str, Number]


def moved(base: Columns, moves: Sequence[Move]) -> Columns:
    """A point for every (path, value): the one point of `base` with that value at the path.

    The paths must be numbers of the scenario (`check_path`), the values within their bounds.
    """
    num_points = len(moves)
    values = dict(base.values)
    for row, (path, value) in enumerate(moves):
        leaf = number_at(path)
        if len(values[leaf.path]) != num_points or values[leaf.path] is base.values[leaf.path]:
            values[leaf.path] = np.repeat(base.values[leaf.path], num_points, axis=0)
        group = group_of(path)
        place: Any = row if group is None else (row, group)
        values[leaf.path][place] = value
    paths = {number_at(path).path for path, _ in moves}
    # What no moved number touches is worked out once.
    same = np.zeros(num_points, dtype=np.int64)
    return Columns(
        num_points=num_points,
        values=values,
        barrier_key=None if any(map(moves_the_barrier, paths)) else same,
        step_key=None if any(map(moves_the_step, paths)) else same,
    )


@lru_cache(maxsize=1024)
def number_at(path: str) -> Leaf:
    """The leaf of a path that names a number; raises KeyError for others."""
    leaf = leaf_of(path)
    if leaf is None or not holds_number(leaf):
        raise KeyError(path)
    return leaf


def holds_number(leaf: Leaf) -> bool:
    """Whether it may be one number that is moved, be it instead of one for each stage.

    The number of a stage is a name.
    """
    return (leaf.is_number and leaf.path != PLACEMENT) or leaf.path in OF_STAGES


def bounds_of(path: str) -> tuple[float, float]:
    """The least and greatest number that the field takes."""
    schema = msgspec.json.schema(number_at(path).type)
    ends = {"minimum", "exclusiveMinimum"}
    (numbers,) = (part for part in schema.get("anyOf", [schema]) if ends & part.keys())
    least, greatest = numbers.get("minimum"), numbers.get("maximum")
    if least is None:
        least = math.nextafter(numbers["exclusiveMinimum"], math.inf)
    if greatest is None:
        greatest = math.nextafter(numbers["exclusiveMaximum"], -math.inf)
    return least, greatest


def step_of_whole(path: str, scenario: Scenario) -> int:
    """The distance of whole numbers that can be computed; 0 where any number can.

    GPUs come in whole tensor-parallel groups, or in whole pipelines of them, and in whole nodes
    where exchanges go by these; local steps in whole fragments.
    """
    if not number_at(path).is_whole:
        return 0
    pipeline = scenario.pipeline
    of_replica = scenario.tensor_parallel_size * (1 if pipeline is None else pipeline.stages)
    if path == "num_gpus":
        whole_nodes = scenario.num_gpus >= scenario.gpus_per_node
        in_nodes = isinstance(scenario.communication, Hierarchical | Nccl)
        if in_nodes and whole_nodes:
            return math.lcm(scenario.gpus_per_node, of_replica)
        return of_replica
    if path == "num_evicted_gpus" and pipeline is not None:
        return of_replica
    if path == "synchronization.steps":
        return int(getattr(scenario.synchronization, "fragments", 1))
    return 1


def check_path(scenario: Scenario, path: str, *, pointer: str) -> None:
    """Raise InvalidScenario unless the path names a number that the scenario has.

    The faults point at `pointer`.
    """
    leaf = leaf_of(path)
    is_number = leaf is not None and holds_number(leaf)
    if path in REFUSED:
        _refuse(pointer, "refused_path", f"{path!r} is no input that is looked into")
    if touched(path) is not None and not is_number:
        _refuse(pointer, "not_numeric", f"{path!r} holds no number that could be moved")
    axis = Axis(path=path, values=[bounds_of(path)[0] if is_number else 0])
    try:
        build_grid(scenario, (axis,), max_points=1)
    except InvalidScenario as error:
        _refuse(pointer, error.problems[0].code, error.problems[0].detail)


def value_of(base: Columns, path: str) -> Number | None:
    """The number at the path of the one point of `base`; None where it is a word or absent."""
    leaf = number_at(path)
    group = group_of(path)
    values = base[leaf.path][0]
    if leaf.dtype == "object":
        # One number for all stages, one for each of them, or none.
        return values if isinstance(values, int | float) else None
    number: float = (values if group is None else values[group]).item()
    if np.isnan(number) or (leaf.words and number == 0):
        return None
    return int(number) if leaf.is_whole else number


def _refuse(pointer: str, code: str, detail: str) -> NoReturn:
    raise InvalidScenario([Problem(pointer=pointer, code=code, detail=detail)]) from None
