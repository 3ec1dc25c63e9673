"""Grids from documents, as tests and benchmarks write them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from service.model.axes import Axis
from service.model.grid import Grid, build_grid
from service.model.scenario import decode_scenario


def grid_of(scenario: Mapping[str, Any], axes: Sequence[Mapping[str, Any]]) -> Grid:
    """The grid of a scenario's document over documents of axes."""
    return build_grid(
        decode_scenario(scenario), msgspec.convert(axes, list[Axis]), max_points=1_000_000
    )
