import numpy as np
import pytest

from service.model.pipeline.engine import ends
from service.model.pipeline.program import program_of
from service.model.pipeline.tables import Lanes, Tables
from tests.model.pipeline.pipeline_cases import random_cases


def test_parts_of_lanes() -> None:
    lanes = Lanes(
        np.arange(6.0).reshape(2, 3), np.ones((2, 1)), np.ones(1), np.arange(3.0), None, None
    )
    assert lanes.number() == 3
    part = lanes.part(slice(1, 3))
    assert part.forward.tolist() == [[1, 2], [4, 5]]
    assert part.backward.shape == (2, 1)
    assert part.p2p.tolist() == [1, 2]
    assert part.factor is None
    assert part.jitter is None
    both = lanes._replace(factor=lanes.forward, jitter=lanes.forward).part(slice(0, 1))
    assert both.factor is not None
    assert both.factor.tolist() == [[0], [3]]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("zbv", (4, 9, 2)), ("dualpipe", (4, 8, 1)), ("gpipe", (3, 3, 1)), ("1f1b", (5, 9, 1))],
)
@pytest.mark.parametrize("jittered", [True, False])
def test_tables_serve_one_block_after_the_other(
    name: str, sizes: tuple[int, int, int], *, jittered: bool
) -> None:
    rng = np.random.default_rng(1)
    cases = random_cases(rng, name, sizes, 4)
    lanes = Lanes(*cases[1:])
    if not jittered:
        lanes = lanes._replace(jitter=None)
    tables = Tables(program_of(cases.plan), sizes[0], 2, np.dtype(np.float64))
    expected = ends(
        cases.plan,
        cases.forward,
        cases.backward,
        weight_fraction=cases.weight_fraction,
        p2p=cases.p2p,
        factor=cases.factor,
        jitter=lanes.jitter,
    ).ends.max(axis=0)
    for start in (0, 2, 1):
        block = slice(start, start + 2)
        assert (tables.last_ends(lanes.part(block)) == expected[block]).all()
