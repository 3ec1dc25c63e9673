"""The tuner's times, held to values of its code, and to loops over the hops."""

from typing import Any

import pytest

from service.model.columns import Columns
from service.model.exchange.message_times import MessageTimes
from service.model.exchange.nccl import nccl_ring, nccl_tree
from tests.model.exchange.exchanges import INTRA, OracleRow, by, oracle, point

# us, LL / LL128 / Simple, from NCCL's src/graph/tuning.cc (2026).
BASE = {"ring": (6.6, 14.0, 8.4), "tree": (6.8, 14.0, 8.4)}
HOPS = {
    ("nvlink", "ring"): (0.6, 1.9, 3.4),
    ("nvlink", "tree"): (0.6, 1.25, 4.0),
    ("pci", "ring"): (1.0, 2.5, 5.7),
    ("pci", "tree"): (1.0, 1.9, 4.0),
    ("net", "ring"): (2.7, 4.0, 14.0),
    ("net", "tree"): (5.0, 8.5, 14.0),
}
PROTOCOLS = ("ll", "ll128", "simple")
TIMES = {"ring": nccl_ring, "tree": nccl_tree}


def asked(nodes: int, of_node: int = 8, **fields: Any) -> Columns:
    link = {"bandwidth_gigabytes_per_s": 25, "latency_us": fields.pop("latency_us", 0)}
    communication = by("nccl", **{"link": link, "intra_link": INTRA, **fields})
    return point(communication, num_gpus=nodes * of_node, gpus_per_node=of_node)


@pytest.mark.parametrize("row", oracle("nccl_latency_us"), ids=lambda row: str(row.inputs))
def test_latencies_are_those_of_the_tuner(row: OracleRow) -> None:
    inputs = row.inputs
    columns = asked(
        inputs["nodes"],
        inputs["gpus_per_node"],
        protocol=inputs["proto"],
        intra_connection=inputs["intra"],
        latency_us=inputs["latency_inter_us"],
    )
    latency_us = 1e3 * TIMES[inputs["algo"]](columns).latency_ms[0]
    assert latency_us == pytest.approx(row.expected, abs=0.1)


def latency_by_hops(algorithm: str, protocol: str, connection: str, nodes: int, g: int) -> float:
    """Hop after hop around the ring, or level after level of the tree."""
    at = PROTOCOLS.index(protocol)
    nic_us = 3.0 * (2 if protocol == "simple" else 1)
    total = BASE[algorithm][at]
    if algorithm == "tree":
        total += sum(2 * HOPS[connection, "tree"][at] for _ in range(g - 1))
        while nodes >= 2:
            total += 2 * (HOPS["net", "tree"][at] + nic_us)
            nodes //= 2
        return total
    overhead = 0.0 if nodes == 1 else (3.0 if protocol == "simple" else 1.0)
    net = HOPS["net", "tree" if g == 1 else "ring"][at] + nic_us
    for hop in range(2 * (nodes * g - 1)):
        between = hop < 2 * (nodes - 1)
        total += net if between else max(HOPS[connection, "ring"][at], overhead)
    return total


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("connection", ["nvlink", "pci"])
@pytest.mark.parametrize(("nodes", "of_node"), [(1, 8), (2, 8), (3, 4), (16, 1), (6, 2)])
def test_latencies_are_the_sum_of_the_hops(
    algorithm: str, protocol: str, connection: str, nodes: int, of_node: int
) -> None:
    columns = asked(nodes, of_node, protocol=protocol, intra_connection=connection, latency_us=3)
    found = 1e3 * TIMES[algorithm](columns).latency_ms[0]
    expected = latency_by_hops(algorithm, protocol, connection, nodes, of_node)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("algorithm", "protocol", "nodes", "share"),
    [
        ("ring", "simple", 2, 1),
        ("ring", "ll", 2, 0.5),
        ("ring", "ll128", 2, 0.92),
        ("tree", "simple", 2, 0.92),
        ("tree", "ll", 2, 0.92 / 3.8),
        ("tree", "ll128", 2, 0.92 * 120 / 128),
        ("tree", "ll128", 1, 0.92 * 7 / 9),
    ],
)
def test_the_bandwidth_is_that_of_the_slower_kind_of_link(
    algorithm: str, protocol: str, nodes: int, share: float
) -> None:
    found = TIMES[algorithm](asked(nodes, protocol=protocol)).bandwidth_ms[0]
    ranks = 8 * nodes
    # Eight network links of 25 GB/s a node, or 300 GB/s within it.
    bus = (300e6 if nodes == 1 else 8 * 25e6) * share
    moved = 2 * (ranks - 1) / ranks * 1e9 if algorithm == "ring" else 2e9
    assert found == pytest.approx(moved / bus, rel=1e-12)


def test_a_slow_link_within_nodes_holds_up_fast_ones_between() -> None:
    slow = {"bandwidth_gigabytes_per_s": 24}
    assert nccl_tree(asked(4, intra_link=slow)).bandwidth_ms[0] == pytest.approx(2e9 / 24e6 / 0.92)


@pytest.mark.parametrize("times", TIMES.values())
def test_one_rank_waits_for_nobody(times: Any) -> None:
    found: MessageTimes = times(asked(1, 1))
    assert found.latency_ms[0] == found.bandwidth_ms[0] == 0


def test_the_latency_of_a_preset_is_no_network_card_s() -> None:
    preset = {"preset": "infiniband_ndr_400_2026_11"}
    with_own = {**preset, "latency_us": 1}
    none, own = (nccl_ring(asked(16, link=link)).latency_ms[0] for link in (preset, with_own))
    assert none == pytest.approx(1.1900)
    # Two flushes of 1 us on each of 30 hops.
    assert own - none == pytest.approx(0.060)
