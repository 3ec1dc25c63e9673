from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.model.columns import Columns, joined
from service.model.exchange import formulas
from service.model.exchange.collectives import (
    ALGORITHMS,
    Exchange,
    exchange_of,
    half_exchange_of,
    half_part_ms,
    part_ms,
)
from service.model.exchange.message_times import MessageTimes
from service.model.exchange.nccl import nccl_ring, nccl_tree
from tests.model.exchange.exchanges import INTRA, LINK, by, point

CURVE = {"sizes_bytes": [1e6, 1e12], "times_ms": [1, 1e6], "compression_ms": 3}
FIXED = {"kind": "fixed", "allreduce_ms": 80}
EVERY_KIND: dict[str, dict[str, Any]] = {
    "fixed": FIXED,
    "ring": by("ring", compression_ms=5),
    "tree": by("tree"),
    "hierarchical": by("hierarchical"),
    "auto": by("auto", intra_link=INTRA),
    "auto_without_nodes": by("auto"),
    "transfer": by("transfer"),
    "nccl": by("nccl"),
    "nccl_tree": by("nccl", algorithm="tree"),
    "nccl_ring": by("nccl", algorithm="ring"),
    "measured": by("measured", **CURVE),
}


def named(exchange: Exchange) -> list[str]:
    return [ALGORITHMS[code] for code in exchange.algorithm]


def total(times: MessageTimes) -> float:
    return float((times.latency_ms + times.bandwidth_ms)[0])


def test_each_kind_names_its_algorithm_and_its_parts() -> None:
    columns = joined([point(communication) for communication in EVERY_KIND.values()])
    found = exchange_of(columns)
    assert dict(zip(EVERY_KIND, named(found), strict=True)) == {
        "fixed": "fixed",
        "ring": "ring",
        "tree": "tree",
        "hierarchical": "hierarchical",
        "auto": "hierarchical",
        "auto_without_nodes": "ring",
        "transfer": "transfer",
        "nccl": "nccl_ring",
        "nccl_tree": "nccl_tree",
        "nccl_ring": "nccl_ring",
        "measured": "measured",
    }
    has_parts = dict(zip(EVERY_KIND, found.has_parts.tolist(), strict=True))
    assert [kind for kind, has in has_parts.items() if not has] == ["fixed", "measured"]
    times = dict(zip(EVERY_KIND, found.allreduce_ms.tolist(), strict=True))
    assert times["fixed"] == 80
    assert times["measured"] == pytest.approx(1e3)
    ring = formulas.ring(point(by("ring")))
    assert times["ring"] == ring.latency_ms[0] + ring.bandwidth_ms[0]
    np.testing.assert_array_equal(found.compression_ms, [0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 3])


def test_points_alone_are_as_among_others() -> None:
    among = exchange_of(joined([point(communication) for communication in EVERY_KIND.values()]))
    for row, communication in enumerate(EVERY_KIND.values()):
        alone = exchange_of(point(communication))
        for name in Exchange._fields:
            assert getattr(among, name)[row] == getattr(alone, name)[0]


def test_nothing_is_computed_where_all_is_fixed() -> None:
    columns = joined([point(FIXED), point(), point({**FIXED, "allreduce_ms": 0})])
    # A scenario that says nothing of its communication has none.
    found = exchange_of(columns)
    np.testing.assert_array_equal(found.latency_ms, 0)
    np.testing.assert_array_equal(found.bandwidth_ms, [80, 0, 0])
    np.testing.assert_array_equal(found.compression_ms, 0)
    assert named(found) == ["fixed"] * 3
    assert not found.has_parts.any()
    assert not half_exchange_of(columns).has_parts.any()


@given(
    exponent=st.integers(0, 12),
    size=st.floats(1e3, 1e11),
    latency_us=st.floats(0.1, 1e3),
    reached=st.floats(0.5, 1),
    has_nodes=st.booleans(),
)
def test_auto_is_the_fastest(
    *, exponent: int, size: float, latency_us: float, reached: float, has_nodes: bool
) -> None:
    fields = {"message_bytes": size, "link": {**LINK, "latency_us": latency_us}}
    nodes = {"intra_link": INTRA} if has_nodes else {}
    ranks = 2**exponent
    auto = exchange_of(
        point(by("auto", **fields, **nodes, tree_efficiency_fraction=reached), num_gpus=ranks)
    )
    singles = {
        "ring": by("ring", **fields),
        "tree": by("tree", **fields, tree_efficiency_fraction=reached),
    }
    if has_nodes:
        singles["hierarchical"] = by("hierarchical", **fields)
    times = {
        kind: float(exchange_of(point(communication, num_gpus=ranks)).allreduce_ms[0])
        for kind, communication in singles.items()
    }
    assert auto.allreduce_ms[0] == min(times.values())
    assert times[named(auto)[0]] == min(times.values())


def test_auto_changes_with_the_size_of_the_message_and_of_the_cluster() -> None:
    small, large = by("auto", message_bytes=1e4), by("auto", message_bytes=1e10)
    assert named(exchange_of(point(small, num_gpus=1024))) == ["tree"]
    assert named(exchange_of(point(large, num_gpus=8))) == ["ring"]
    # The steps of 1 024 ranks cost more than the bytes that a ring saves.
    assert named(exchange_of(point(large, num_gpus=1024))) == ["tree"]
    within = by("auto", intra_link=INTRA)
    # 12 ranks do not fill nodes of 8: there is no hierarchy to choose.
    assert named(exchange_of(point(within, num_gpus=16))) == ["hierarchical"]
    assert named(exchange_of(point(within, num_gpus=12))) == ["ring"]


def test_nccl_chooses_ring_or_tree() -> None:
    few, many = (point(by("nccl", message_bytes=1e6), num_gpus=n) for n in (8, 8192))
    for columns, expected in ((few, "nccl_ring"), (many, "nccl_tree")):
        found = exchange_of(columns)
        assert named(found) == [expected]
        ring, tree = (total(times(columns)) for times in (nccl_ring, nccl_tree))
        assert found.allreduce_ms[0] == min(ring, tree)


def test_one_rank_exchanges_nothing_but_what_is_charged_as_given() -> None:
    found = {
        kind: exchange_of(point({**communication, "compression_ms": 5}, num_gpus=1))
        for kind, communication in EVERY_KIND.items()
        if kind != "fixed"
    }
    for kind, exchange in found.items():
        measured = kind == "measured"
        assert exchange.allreduce_ms[0] == pytest.approx(1e3 if measured else 0)
        assert exchange.compression_ms[0] == (5 if measured else 0)
    assert exchange_of(point(FIXED, num_gpus=1)).allreduce_ms[0] == 80


@given(st.sampled_from(["ring", "tree", "hierarchical", "transfer", "nccl"]), st.floats(1, 1e6))
def test_compression_divides_the_bandwidth_part_alone(kind: str, ratio: float) -> None:
    algorithm = {"algorithm": "ring"} if kind == "nccl" else {}
    plain, small = (
        exchange_of(point(by(kind, **algorithm, compression_ratio=by_so_much)))
        for by_so_much in (1, ratio)
    )
    assert small.bandwidth_ms[0] == pytest.approx(plain.bandwidth_ms[0] / ratio, rel=1e-12)
    assert small.latency_ms[0] == plain.latency_ms[0]


def everything() -> Columns:
    return joined([point(communication) for communication in EVERY_KIND.values()])


def test_parts_pay_the_latency_each_and_the_bandwidth_of_their_share() -> None:
    columns = everything()
    whole = exchange_of(columns)
    shares = np.array([[1.0], [0.5], [0.01]])
    found = part_ms(columns, shares)
    assert found.shape == (3, len(EVERY_KIND))
    np.testing.assert_allclose(found[0], whole.allreduce_ms, rtol=1e-12)
    np.testing.assert_array_equal(found, part_ms(columns, shares, whole))
    for row, share in enumerate(shares[:, 0]):
        for place, kind in enumerate(EVERY_KIND):
            latency, bandwidth = whole.latency_ms[place], whole.bandwidth_ms[place]
            expected = latency + share * bandwidth
            if kind == "measured":
                # 1e9 bytes take 1 000 ms, and times are as sizes.
                expected = share * 1e3
            assert found[row, place] == pytest.approx(expected, rel=1e-12)


def test_shares_may_differ_from_point_to_point() -> None:
    columns = everything()
    shares = np.linspace(0.1, 1, 2 * len(EVERY_KIND)).reshape(2, -1)
    found = part_ms(columns, shares)
    for place, communication in enumerate(EVERY_KIND.values()):
        alone = part_ms(point(communication), shares[:, place, None])
        np.testing.assert_allclose(found[:, place], alone[:, 0], rtol=1e-12)
    # A measured curve alone, with one share for all points.
    curves = joined([point(EVERY_KIND["measured"])] * 3)
    np.testing.assert_allclose(part_ms(curves, np.array([[0.5]])), [[500, 500, 500]])


def test_the_algorithm_of_a_part_is_that_of_the_whole() -> None:
    # A tree would be faster for a thousandth of the message.
    columns = point(by("auto"), num_gpus=16)
    assert named(exchange_of(columns)) == ["ring"]
    ring = formulas.ring(columns)
    expected = ring.latency_ms[0] + ring.bandwidth_ms[0] / 1000
    assert part_ms(columns, np.array([0.001]))[0] == pytest.approx(expected)
    smaller = point(by("auto", message_bytes=1e6), num_gpus=16)
    assert named(exchange_of(smaller)) == ["tree"]
    assert exchange_of(smaller).allreduce_ms[0] < expected


def test_two_halves_make_an_all_reduce_of_rings_and_hierarchies() -> None:
    columns = everything()
    halves = half_exchange_of(columns)
    has_halves = dict(zip(EVERY_KIND, halves.has_parts.tolist(), strict=True))
    assert [kind for kind, has in has_halves.items() if not has] == [
        "fixed",
        "tree",
        "transfer",
        "nccl_tree",
        "measured",
    ]
    whole = exchange_of(columns)
    np.testing.assert_allclose(
        2 * (halves.latency_ms + halves.bandwidth_ms),
        np.where(halves.has_parts, whole.allreduce_ms, np.nan),
    )
    shares = np.array([[0.25], [1.0]])
    found = half_part_ms(columns, shares)
    np.testing.assert_allclose(found, halves.latency_ms + shares * halves.bandwidth_ms)
    np.testing.assert_array_equal(found, half_part_ms(columns, shares, halves))


def test_halves_choose_among_what_has_them() -> None:
    columns = point(by("auto", message_bytes=1e4), num_gpus=1024)
    assert named(exchange_of(columns)) == ["tree"]
    halves = half_exchange_of(columns)
    assert named(halves) == ["ring"]
    assert 2 * halves.allreduce_ms[0] == pytest.approx(total(formulas.ring(columns)))
    nccl = point(by("nccl", message_bytes=1e4), num_gpus=8192)
    assert named(half_exchange_of(nccl)) == ["nccl_ring"]


@given(st.integers(1, 12), st.floats(0.5, 1e3), st.floats(1, 100))
def test_more_bandwidth_never_hurts_whatever_is_chosen(
    exponent: int, bandwidth: float, better: float
) -> None:
    def time(kind: str, speed: float) -> float:
        link = {"bandwidth_gigabytes_per_s": speed, "latency_us": 14}
        communication = by(kind, link=link, intra_link=INTRA)
        return float(exchange_of(point(communication, num_gpus=2**exponent)).allreduce_ms[0])

    for kind in ("auto", "nccl", "hierarchical"):
        assert time(kind, bandwidth * better) <= time(kind, bandwidth) * (1 + 1e-12)
