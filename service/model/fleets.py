"""Columns as fleets: points of one structure, as the mathematics of the barrier take them."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.active import (
    LAW_PATHS,
    SOURCES,
    is_active,
    num_backup,
    num_removed,
    occupancy,
    spikes_are_active,
)
from service.model.columns import COUNT, SPEED, Columns, Floats
from service.model.fleet import Episodes, Fleet
from service.model.laws.averages import average_keys
from service.model.patterns import pattern_of
from service.model.piped_fleets import replica_fields
from service.model.pipelines import are_stages_simulated, by_plan
from service.model.sources import source_of, spikes_of
from service.model.stage_sizes import has_pipeline
from service.model.step_lines import step_lines_of
from service.model.times import compute_ms, outside_ms
from service.model.waiting import (
    BUCKETS,
    averages_rounds,
    hides_load,
    interval_steps,
    is_local,
    is_serial,
    needs_recursion,
)

Rows = NDArray[np.intp]


class Structure(NamedTuple):
    """Points with the same sources and families: which they are, their inputs, and as fleet."""

    rows: Rows
    columns: Columns
    fleet: Fleet


def structures_of(columns: Columns) -> list[Structure]:
    """All points, by structure."""
    structure = np.zeros(columns.num_points, dtype=np.int64)
    for source, path in LAW_PATHS.items():
        if columns.lacks(f"{path}.kind"):
            continue
        active = is_active(columns, source)
        kind = np.where(active, columns[f"{path}.kind"], 0)
        table = np.where(active, _tables(columns, source), 0)
        structure = _told_apart(_told_apart(structure, kind), table)
    structure = _told_apart(structure, spikes_are_active(columns))
    structure = _told_apart(structure, occupancy(columns) > 0)
    structure = _told_apart(structure, num_removed(columns) > 0)
    structure = _told_apart(structure, num_backup(columns) > 0)
    structure = _told_apart(structure, _ways_of_waiting(columns))
    structure = _told_apart(structure, _plans(columns))
    if averages_rounds(columns).any():
        structure = _told_apart(structure, _tables_of_rounds(columns, structure))
    found = []
    for code in range(int(structure.max(initial=-1)) + 1):
        rows = np.flatnonzero(structure == code)
        part = columns if len(rows) == columns.num_points else columns.part(rows)
        found.append(Structure(rows, part, fleet_of(part)))
    return found


def _told_apart(structure: NDArray[np.int64], by: NDArray[np.generic]) -> NDArray[np.int64]:
    """Codes 0, 1, … of what is equal in both."""
    if len(by) < 2 or (by == by[0]).all():
        return structure
    _, codes = np.unique(by, return_inverse=True)
    _, found = np.unique(structure * (codes.max() + 1) + codes, return_inverse=True)
    return found.astype(np.int64)


def _ways_of_waiting(columns: Columns) -> NDArray[np.int64]:
    """(points,) 0 where every step is one after the other; what shares a fleet has one number."""
    shapes = [
        has_pipeline(columns),
        ~is_serial(columns),
        hides_load(columns),
        averages_rounds(columns),
        needs_recursion(columns),
        is_local(columns),
        columns["overlap.kind"] == BUCKETS,
    ]
    ways: NDArray[np.int64] = sum(
        (shape.astype(np.int64) << place for place, shape in enumerate(shapes)),
        start=np.zeros(columns.num_points, dtype=np.int64),
    )
    return np.where(is_serial(columns) & ~has_pipeline(columns), 0, ways)


def _plans(columns: Columns) -> NDArray[np.int64]:
    """(points,) numbers of the plans of pipelines that are simulated; 0 elsewhere."""
    plans = np.zeros(columns.num_points, dtype=np.int64)
    rows = np.flatnonzero(are_stages_simulated(columns))
    for code, (_, _, some) in enumerate(by_plan(columns, rows), start=1):
        plans[some] = code
    return plans


def _tables_of_rounds(columns: Columns, structure: NDArray[np.int64]) -> NDArray[np.int64]:
    """(points,) what points of a structure may share where steps are averaged over a round."""
    keys = np.zeros(columns.num_points, dtype=np.int64)
    for code in np.unique(structure[averages_rounds(columns)]).tolist():
        rows = np.flatnonzero(structure == code)
        fleet = fleet_of(columns.part(rows))
        if fleet.round_steps is not None and fleet.varies_per_step:
            source = fleet.transient or fleet.replica
            keys[rows] = average_keys(source, fleet.spikes, fleet.round_steps)
    return keys


def _tables(columns: Columns, source: str) -> NDArray[np.int64]:
    """(points,) numbers of the tables of quantiles; 0 where there is none."""
    tables = columns.values[f"{LAW_PATHS[source]}.quantiles"]
    known: dict[tuple[float, ...] | None, int] = {None: 0}
    codes = [known.setdefault(table, len(known)) for table in tables.tolist()]
    return np.broadcast_to(np.array(codes, dtype=np.int64), columns.num_points)


def fleet_of(columns: Columns) -> Fleet:
    """The points, all of one structure."""
    sources: dict[str, Any] = {source: source_of(columns, source) for source in SOURCES}
    counts, factors = _merged(columns)
    has_episodes = columns.num_points > 0 and bool((occupancy(columns) > 0).any())
    has_spikes = bool(spikes_are_active(columns).any())
    has_points = columns.num_points > 0
    fleet = Fleet(
        num_gpus=counts,
        mean=factors,
        gpus_per_node=columns["gpus_per_node"],
        tensor_parallel_size=columns["tensor_parallel_size"],
        outside_ratio=outside_ms(columns) / compute_ms(columns),
        num_removed=num_removed(columns),
        num_backup=num_backup(columns),
        autocorrelation=columns["variability.autocorrelation"],
        spikes=spikes_of(columns) if has_spikes else None,
        episodes=_episodes(columns) if has_episodes else None,
        **sources,
    )
    if has_points and has_pipeline(columns)[0]:
        return replace(fleet, **replica_fields(columns))
    return replace(fleet, **_waiting(columns)) if has_points else fleet


def _waiting(columns: Columns) -> dict[str, Any]:
    """What is more to a step than its slowest GPU; nothing where all is one after the other."""
    if is_serial(columns).all():
        return {}
    lines = step_lines_of(columns)
    found: dict[str, Any] = {"lines": lines.step}
    if hides_load(columns).any():
        found["rest_lines"] = lines.rest
    if averages_rounds(columns)[0]:
        found["round_steps"] = interval_steps(columns).astype(np.int64)
    elif needs_recursion(columns)[0]:
        found["pattern"] = pattern_of(columns)
    return found


def _merged(columns: Columns) -> tuple[Floats, Floats]:
    """(classes, points) GPUs and factors 1 / speed, equal GPUs in one class however listed."""
    counts = np.vstack([columns.num_nominal, columns[COUNT].T]).astype(np.float64)
    factors = np.vstack([np.ones(columns.num_points), 1 / columns[SPEED].T])
    for later in range(1, len(counts)):
        for earlier in range(later):
            same = (factors[later] == factors[earlier]) & (counts[later] > 0)
            if same.any():
                counts[earlier] += np.where(same, counts[later], 0.0)
                counts[later] = np.where(same, 0.0, counts[later])
    return counts, factors


def _episodes(columns: Columns) -> Episodes:
    return Episodes(
        occupancy=occupancy(columns),
        severity=columns["variability.episodes.severity"],
        mean_hours=columns["variability.episodes.mean_hours"],
    )
