from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.model.exchange import formulas
from service.model.exchange.message_times import MessageTimes
from tests.model.exchange.exchanges import INTRA, LINK, by, point
from tests.model.exchange.ranks_by_hand import hierarchical_ms, levels, ring_ms, tree_ms

SIZE, ALPHA, BETA = 1e9, 0.014, 12.5e6
WITHIN = (0.003, 300e6)
RANKS = [1, 2, 3, 4, 7, 8, 9, 16, 31, 64, 100]


def total(times: MessageTimes) -> float:
    return float((times.latency_ms + times.bandwidth_ms)[0])


@pytest.mark.parametrize("ranks", RANKS)
def test_a_ring_takes_what_its_steps_take(ranks: int) -> None:
    found = formulas.ring(point(by("ring"), num_gpus=ranks))
    assert total(found) == pytest.approx(ring_ms(ranks, SIZE, ALPHA, BETA), rel=1e-12)
    assert found.latency_ms[0] == pytest.approx(2 * (ranks - 1) * ALPHA, rel=1e-12)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("reached", [1.0, 0.8])
def test_a_tree_takes_what_its_levels_take(ranks: int, reached: float) -> None:
    found = formulas.tree(point(by("tree", tree_efficiency_fraction=reached), num_gpus=ranks))
    assert total(found) == pytest.approx(tree_ms(ranks, SIZE, ALPHA, BETA * reached), rel=1e-12)
    assert found.latency_ms[0] == pytest.approx(2 * levels(ranks) * ALPHA, rel=1e-12)


@pytest.mark.parametrize(("of_node", "nodes"), [(1, 1), (1, 6), (4, 1), (8, 2), (8, 7), (2, 33)])
def test_a_hierarchy_takes_what_its_parts_take(of_node: int, nodes: int) -> None:
    columns = point(by("hierarchical"), num_gpus=of_node * nodes, gpus_per_node=of_node)
    found = formulas.hierarchical(columns)
    expected = hierarchical_ms(of_node, nodes, SIZE, WITHIN, (ALPHA, BETA))
    assert total(found) == pytest.approx(expected, rel=1e-12)


def test_tensor_groups_are_one_rank_each() -> None:
    whole = point(by("hierarchical"), num_gpus=256, tensor_parallel_size=4)
    expected = hierarchical_ms(2, 32, SIZE, WITHIN, (ALPHA, BETA))
    assert total(formulas.hierarchical(whole)) == pytest.approx(expected, rel=1e-12)


def test_a_transfer_goes_to_one_place_however_many_ranks() -> None:
    for ranks in (2, 1024):
        found = formulas.transfer(point(by("transfer"), num_gpus=ranks))
        assert found.latency_ms[0] == pytest.approx(ALPHA)
        assert found.bandwidth_ms[0] == pytest.approx(SIZE / BETA)
    assert total(formulas.transfer(point(by("transfer"), num_gpus=1))) == 0


FORMULAS = {
    "ring": formulas.ring,
    "tree": formulas.tree,
    "hierarchical": formulas.hierarchical,
    "transfer": formulas.transfer,
}


@given(
    st.sampled_from(sorted(FORMULAS)),
    st.integers(0, 12),
    st.floats(0.1, 1e4),
    st.floats(1.0, 100),
    st.sampled_from(["link", "intra_link"]),
)
def test_more_bandwidth_and_less_latency_never_hurt(
    kind: str, exponent: int, bandwidth: float, better: float, changed: str
) -> None:
    def of(bandwidth: float, latency_us: float) -> float:
        link = {"bandwidth_gigabytes_per_s": bandwidth, "latency_us": latency_us}
        links: dict[str, Any] = {"link": LINK, "intra_link": INTRA, changed: link}
        if kind != "hierarchical":
            del links["intra_link"]
        return total(FORMULAS[kind](point({**by(kind), **links}, num_gpus=2**exponent)))

    worst, best = of(bandwidth, 10 * better), of(bandwidth * better, 10)
    assert best <= worst * (1 + 1e-12)
    assert best >= 0


def test_the_bandwidth_part_grows_with_the_message_and_the_latency_part_does_not() -> None:
    for kind, times in FORMULAS.items():
        one = times(point(by(kind)))
        ten = times(point(by(kind, message_bytes=1e10)))
        np.testing.assert_allclose(ten.bandwidth_ms, 10 * one.bandwidth_ms, rtol=1e-12)
        np.testing.assert_array_equal(ten.latency_ms, one.latency_ms)
