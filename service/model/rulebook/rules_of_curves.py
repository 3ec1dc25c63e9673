"""Rules about measured curves."""

from itertools import pairwise
from typing import Any

import numpy as np

from service.model.columns import Columns, Floats, columns_of
from service.model.exchange.collectives import MEASURED
from service.model.exchange.messages import message_bytes, num_ranks, smallest_share
from service.model.fields import Scenario
from service.model.rulebook.rule import Mask, Rule, Said

_HAS_CURVE = "communication.sizes_bytes"


def _no_curve(columns: Columns) -> Mask:
    """(points,) whether sizes do not ascend, or are not as many as the times."""
    broken = np.zeros(columns.num_points, dtype=np.bool_)
    sizes_of = columns[_HAS_CURVE].tolist()
    times_of = columns["communication.times_ms"].tolist()
    known: dict[tuple[int, int], bool] = {}
    for row in np.flatnonzero(columns["communication.kind"] == MEASURED).tolist():
        sizes, times = sizes_of[row], times_of[row]
        key = id(sizes), id(times)
        if key not in known:
            ascends = all(low < high for low, high in pairwise(sizes))
            known[key] = not (ascends and len(sizes) == len(times))
        broken[row] = known[key]
    return broken


def _say_no_curve(scenario: Scenario) -> Said:
    measured: Any = scenario.communication
    sizes, times = measured.sizes_bytes, measured.times_ms
    if len(sizes) != len(times):
        return "/communication/times_ms", f"{len(times)} times of {len(sizes)} sizes"
    falls = next(at for at in range(1, len(sizes)) if sizes[at] <= sizes[at - 1])
    return (
        f"/communication/sizes_bytes/{falls}",
        f"sizes must ascend, but {sizes[falls]:g} follows {sizes[falls - 1]:g}",
    )


def _smallest_bytes(columns: Columns) -> Floats:
    """(points,) the smallest message that travels by itself."""
    smallest: Floats = smallest_share(columns) * message_bytes(columns)
    return smallest


def _beyond_curve(columns: Columns) -> Mask:
    broken = np.zeros(columns.num_points, dtype=np.bool_)
    rows = np.flatnonzero(columns["communication.kind"] == MEASURED)
    part = columns.part(rows)
    sizes_of = part[_HAS_CURVE].tolist()
    shortest = np.array([sizes[0] for sizes in sizes_of])
    longest = np.array([sizes[-1] for sizes in sizes_of])
    broken[rows] = (_smallest_bytes(part) < shortest) | (message_bytes(part) > longest)
    return broken


def _say_beyond_curve(scenario: Scenario) -> Said:
    columns = columns_of(scenario)
    measured: Any = scenario.communication
    low, high = measured.sizes_bytes[0], measured.sizes_bytes[-1]
    whole, smallest = float(message_bytes(columns)[0]), float(_smallest_bytes(columns)[0])
    what = (
        f"{whole:g} bytes are exchanged"
        if whole > high or whole == smallest
        else f"of {whole:g} bytes a part of {smallest:g} travels by itself"
    )
    return (
        "/communication/sizes_bytes",
        f"{what}, but only messages from {low:g} to {high:g} bytes were measured",
    )


def _other_ranks(columns: Columns) -> Mask:
    measured = columns["communication.measured_num_ranks"]
    broken: Mask = ~np.isnan(measured) & (measured != num_ranks(columns))
    return broken


def _say_other_ranks(scenario: Scenario) -> Said:
    measured: Any = scenario.communication
    ranks = int(num_ranks(columns_of(scenario))[0])
    return (
        "/communication/measured_num_ranks",
        (
            f"measured with {measured.measured_num_ranks} ranks, but {ranks} data-parallel ranks "
            "exchange here; leave it out to take the curve for any number"
        ),
    )


CURVE_RULES = (
    Rule("not_a_measured_curve", _no_curve, _say_no_curve, _HAS_CURVE),
    Rule("beyond_measured_sizes", _beyond_curve, _say_beyond_curve, _HAS_CURVE),
    Rule(
        "measured_with_other_ranks",
        _other_ranks,
        _say_other_ranks,
        "communication.measured_num_ranks",
    ),
)
