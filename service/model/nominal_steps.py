"""A step at nominal speed: of load and communication, what is exposed."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.exchange.serial import serial_of
from service.model.piped_fleets import with_hidden_load
from service.model.pipelines import nominal_pipeline
from service.model.stage_sizes import has_pipeline
from service.model.step_lines import rest_lines_of, without_hidden_load
from service.model.times import compute_ms
from service.model.waiting import hides_load, is_local, is_serial, needs_recursion

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class NominalStep:
    """(points,) each.

    ms                       of a step where nothing varies and nobody is slow
    communication_ms         of a step, nothing hidden
    latency_ms, bandwidth_ms its parts; NaN where they are not told apart
    exposed_…                what the step is longer by than without it; latency is what it would be
                             shorter by if messages took no time but that of their bytes
    algorithm                position in collectives.ALGORITHMS
    is_serial                nothing is hidden and nobody waits later
    has_barrier              all GPUs wait for each other, every step or round
    load_is_hidden           behind the step before
    p2p_ms, imbalance_ms, bubble_ms   what a step is longer by than `ms`, of a pipeline that hands
                             on, whose stages differ, that fills and drains; 0 without one
    """

    ms: Floats
    communication_ms: Floats
    latency_ms: Floats
    bandwidth_ms: Floats
    exposed_load_ms: Floats
    exposed_communication_ms: Floats
    exposed_latency_ms: Floats
    exposed_bandwidth_ms: Floats
    algorithm: NDArray[np.int8]
    is_serial: Mask
    has_barrier: Mask
    load_is_hidden: Mask
    p2p_ms: Floats
    imbalance_ms: Floats
    bubble_ms: Floats

    def part(self, rows: slice) -> "NominalStep":
        """Some of the points."""
        return NominalStep(
            **{field.name: getattr(self, field.name)[rows] for field in fields(self)}
        )


def nominal_of(columns: Columns) -> NominalStep:
    """At every point."""
    serial = serial_of(columns)
    load, compute = columns["load_ms"], compute_ms(columns)
    is_plain, hides = is_serial(columns), hides_load(columns)
    communication = serial.ms
    exposed, exposed_load = communication.copy(), load.astype(np.float64)
    latency = np.where(serial.has_parts, serial.latency_ms, np.nan)
    bandwidth = np.where(serial.has_parts, serial.bandwidth_ms, np.nan)
    exposed_latency = latency.copy()
    rows = np.flatnonzero(~is_plain)
    if len(rows):
        part, at_nominal = columns.part(rows), np.ones(len(rows))
        beside_load = rest_lines_of(part).value(at_nominal)
        part = without_hidden_load(part)
        rest = rest_lines_of(part).value(at_nominal)
        without = rest_lines_of(part, with_latency=False).value(at_nominal)
        exposed[rows] = np.maximum(rest - compute[rows], 0.0)
        exposed_latency[rows] = np.where(serial.has_parts[rows], rest - without, np.nan)
        exposed_load[rows] = np.where(
            hides[rows], np.maximum(load[rows], beside_load) - rest, load[rows]
        )
    compression = _exposed_compression(columns, serial.compression_ms)
    return NominalStep(
        ms=compute + exposed + exposed_load,
        communication_ms=communication,
        latency_ms=latency,
        bandwidth_ms=bandwidth,
        exposed_load_ms=exposed_load,
        exposed_communication_ms=exposed,
        exposed_latency_ms=exposed_latency,
        exposed_bandwidth_ms=np.maximum(exposed - exposed_latency - compression, 0.0),
        algorithm=serial.algorithm,
        is_serial=is_plain,
        has_barrier=~needs_recursion(columns),
        load_is_hidden=hides,
        **_of_pipeline(columns),
    )


def _of_pipeline(columns: Columns) -> dict[str, Floats]:
    """(points,) ms: handing on is switched off first, then the stages are made equal.

    Stages that differ in a way that shortens the pass are no loss: bubbles are then less.
    """
    found = {name: np.zeros(columns.num_points) for name in ("p2p_ms", "imbalance_ms", "bubble_ms")}
    rows = np.flatnonzero(has_pipeline(columns))
    if len(rows):
        part = columns.part(rows)
        times = nominal_pipeline(part)
        whole = with_hidden_load(part, times.makespan_ms)
        no_p2p = with_hidden_load(part, times.without_p2p_ms)
        equal = np.minimum(with_hidden_load(part, times.equal_ms), no_p2p)
        found["p2p_ms"][rows] = whole - no_p2p
        found["imbalance_ms"][rows] = no_p2p - equal
        found["bubble_ms"][rows] = np.maximum(equal - with_hidden_load(part, compute_ms(part)), 0.0)
    return found


def _exposed_compression(columns: Columns, compression: Floats) -> Floats:
    """(points,) ms of a step; with local steps there is one exchange in a round of them."""
    rounds = np.where(is_local(columns), columns["synchronization.steps"], 1.0)
    share: Floats = compression / rounds
    return share
