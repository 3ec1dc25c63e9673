"""Latency and bandwidth of a link, from its own values, its preset's, and defaults."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.exchange.presets import LINK_FIELDS, LINK_PRESETS

LINK, INTRA_LINK = "communication.link", "communication.intra_link"
BYTES_PER_MS = 1e6
"""Of one gigabyte per second."""

MS_PER_US = 1e-3
_DEFAULTS = {"latency_us": 0.0, "efficiency_fraction": 1.0, "flows": 1.0}


class ResolvedLink(NamedTuple):
    """(points,) columns of a link; bandwidth NaN where the scenario has no such link.

    latency_ms              from one rank to the next, one way
    bytes_per_ms            of one rank in one direction, as messages get it
    """

    latency_ms: Floats
    bytes_per_ms: Floats


def resolved(columns: Columns, link: str, field: str) -> Floats:
    """(points,) a field of a link: as given, else of its preset, else the default, else NaN."""
    path = f"{link}.{field}"
    if columns.lacks(f"{link}.preset"):
        of_preset = np.full(columns.num_points, _DEFAULTS.get(field, np.nan))
    else:
        of_preset = _preset_values(field)[columns[f"{link}.preset"]]
    if columns.lacks(path):
        return of_preset
    given = columns[path]
    return np.where(np.isnan(given), of_preset, given)


def link_of(columns: Columns, link: str) -> ResolvedLink:
    """Latency and bandwidth of a link (`LINK` or `INTRA_LINK`).

    Bandwidth used: min(bandwidth x efficiency, flows x window / round trip), and for `LINK` of
    that the slowest link's fraction. A sender that waits for answers has at most a window under
    way, so a long round trip caps the bandwidth whatever the line carries (TCP's
    bandwidth-delay product, RFC 7323).
    """
    line = resolved(columns, link, "bandwidth_gigabytes_per_s") * BYTES_PER_MS
    line = line * resolved(columns, link, "efficiency_fraction")
    used = np.fmin(line, _capped(columns, link))
    # Without a bandwidth a window alone does not make a link.
    used = np.where(np.isnan(line), np.nan, used)
    if link == LINK:
        used = used * columns["communication.slowest_link_fraction"]
    return ResolvedLink(_latency_ms(columns, link), used)


def _latency_ms(columns: Columns, link: str) -> Floats:
    """(points,) as given, else half of a round trip that is given, else of the preset, else 0.

    So that a scenario in which the round trip is moved moves what every message waits.
    """
    latency = resolved(columns, link, "latency_us") * MS_PER_US
    if columns.lacks(f"{link}.round_trip_ms"):
        return latency
    round_trip = columns[f"{link}.round_trip_ms"]
    follows = np.isnan(columns[f"{link}.latency_us"]) & ~np.isnan(round_trip)
    return np.where(follows, round_trip / 2, latency)


def has_intra_link(columns: Columns) -> NDArray[np.bool_]:
    """(points,) whether a link within nodes is given, by a preset or any value of its own."""
    has: NDArray[np.bool_] = columns[f"{INTRA_LINK}.preset"] != 0
    for field in LINK_FIELDS:
        if not columns.lacks(f"{INTRA_LINK}.{field}"):
            has = has | ~np.isnan(columns[f"{INTRA_LINK}.{field}"])
    return has


def _capped(columns: Columns, link: str) -> Floats:
    """(points,) bytes per ms that windows allow; inf where there is nothing to wait for."""
    round_trip = resolved(columns, link, "round_trip_ms")
    in_flight = resolved(columns, link, "flows") * resolved(columns, link, "window_bytes")
    cap = np.full(columns.num_points, np.inf)
    waits = (round_trip > 0) & ~np.isnan(in_flight)
    np.divide(in_flight, round_trip, out=cap, where=waits)
    return cap


@lru_cache(maxsize=16)
def _preset_values(field: str) -> Floats:
    """(1 + presets,) a field of every preset by its code; at 0 the default."""
    default = _DEFAULTS.get(field, np.nan)
    values = [getattr(preset, field) for preset in LINK_PRESETS]
    return np.array([default, *(default if value is None else value for value in values)])
