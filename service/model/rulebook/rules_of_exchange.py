"""Rules about messages and the links that they travel."""

from collections.abc import Callable
from typing import Any

import numpy as np

from service.model.columns import Columns, columns_of
from service.model.exchange.collectives import (
    HIERARCHICAL,
    NCCL,
    exchange_of,
    half_exchange_of,
)
from service.model.exchange.links import (
    INTRA_LINK,
    LINK,
    has_intra_link,
    resolved,
)
from service.model.exchange.messages import (
    fills_nodes,
    message_bytes,
    num_ranks,
    ranks_per_node,
)
from service.model.fields import Scenario
from service.model.parts.bounds import MAX_TIME_MS
from service.model.rulebook.rule import Mask, Rule, Said
from service.model.rulebook.rules_of_curves import CURVE_RULES

_HAS_MESSAGE = "communication.compression_ratio"
_HAS_LINK = "communication.slowest_link_fraction"


def _not_one_message(columns: Columns) -> Mask:
    has = ~np.isnan(columns[_HAS_MESSAGE])
    by_bytes = np.isnan(columns["communication.message_bytes"])
    by_parameters = np.isnan(columns["communication.parameters"])
    broken: Mask = has & (by_bytes == by_parameters)
    return broken


def _say_not_one_message(scenario: Scenario) -> Said:
    communication: Any = scenario.communication
    given = "none" if communication.message_bytes is None else "both"
    return "/communication", f"give one of message_bytes and parameters, here are {given}"


def _used(columns: Columns, link: str) -> Mask:
    """(points,) whether the communication of a point has the link."""
    if link == INTRA_LINK:
        must = np.isin(columns["communication.kind"], (HIERARCHICAL, NCCL))
        return must | has_intra_link(columns)
    has: Mask = ~np.isnan(columns[_HAS_LINK])
    return has


def _no_bandwidth(link: str) -> Callable[[Columns], Mask]:
    def broken(columns: Columns) -> Mask:
        found: Mask = np.isnan(resolved(columns, link, "bandwidth_gigabytes_per_s"))
        return found & _used(columns, link)

    return broken


def _say_no_bandwidth(link: str) -> Callable[[Scenario], Said]:
    def said(_: Scenario) -> Said:
        return _pointer(link), "a link needs bandwidth_gigabytes_per_s, or a preset that has one"

    return said


def _half_a_window(link: str) -> Callable[[Columns], Mask]:
    def broken(columns: Columns) -> Mask:
        no_window = np.isnan(resolved(columns, link, "window_bytes"))
        no_round_trip = np.isnan(resolved(columns, link, "round_trip_ms"))
        found: Mask = ~no_window & no_round_trip & _used(columns, link)
        return found

    return broken


def _say_half_a_window(link: str) -> Callable[[Scenario], Said]:
    def said(_scenario: Scenario) -> Said:
        return (
            _pointer(link),
            "window_bytes without round_trip_ms: only together they cap the bandwidth",
        )

    return said


def _pointer(link: str) -> str:
    return "/" + link.replace(".", "/")


def _no_whole_nodes(columns: Columns) -> Mask:
    in_nodes = np.isin(columns["communication.kind"], (HIERARCHICAL, NCCL))
    broken: Mask = in_nodes & ~fills_nodes(columns)
    return broken


def _say_no_whole_nodes(scenario: Scenario) -> Said:
    columns = columns_of(scenario)
    ranks, of_node = int(num_ranks(columns)[0]), int(ranks_per_node(columns)[0])
    return (
        "/communication/kind",
        f"{ranks} data-parallel ranks do not fill nodes of {of_node}, which this kind goes by",
    )


def _endless(columns: Columns) -> Mask:
    broken = np.zeros(columns.num_points, dtype=np.bool_)
    rows = np.flatnonzero(~np.isnan(columns[_HAS_LINK]))
    exchange = exchange_of(columns.part(rows))
    # Where no message or no bandwidth is known, other rules say so.
    broken[rows] = exchange.allreduce_ms + exchange.compression_ms > MAX_TIME_MS
    return broken


def _say_endless(scenario: Scenario) -> Said:
    size = float(message_bytes(columns_of(scenario))[0])
    detail = f"an exchange of {size:g} bytes would take more than {MAX_TIME_MS:g} ms"
    return "/communication", detail


def _no_halves(columns: Columns) -> Mask:
    sharded = ~np.isnan(columns["overlap.num_layers"])
    broken: Mask = sharded & ~half_exchange_of(columns).has_parts
    return broken


def _say_no_halves(scenario: Scenario) -> Said:
    kind = type(scenario.communication).__struct_config__.tag
    detail = (
        f"fsdp gathers parameters and scatters gradients, two halves of an all-reduce; {kind} "
        "has none: take ring, hierarchical, auto or NCCL's ring"
    )
    return "/communication/kind", detail


EXCHANGE_RULES = (
    Rule("not_one_message", _not_one_message, _say_not_one_message, _HAS_MESSAGE),
    *(
        Rule("link_without_bandwidth", _no_bandwidth(link), _say_no_bandwidth(link), _HAS_LINK)
        for link in (LINK, INTRA_LINK)
    ),
    *(
        Rule("half_a_window", _half_a_window(link), _say_half_a_window(link), _HAS_LINK)
        for link in (LINK, INTRA_LINK)
    ),
    Rule("no_whole_nodes_to_exchange", _no_whole_nodes, _say_no_whole_nodes, _HAS_LINK),
    *CURVE_RULES,
    Rule("exchange_takes_too_long", _endless, _say_endless, _HAS_LINK),
    Rule("no_halves_to_exchange", _no_halves, _say_no_halves, "overlap.num_layers"),
)
