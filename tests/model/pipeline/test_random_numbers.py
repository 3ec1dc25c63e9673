"""Random numbers that hang on seed, source, draw, step and rank alone."""

import numpy as np
import pytest

from service.model.pipeline.random_numbers import BLOCK_RANKS, LANE, PERSISTENT, TRANSIENT, Numbers

RANKS = range(2 * BLOCK_RANKS + 10)


def _fresh(seed: int, source: int, counter: list[int]) -> np.random.Generator:
    key = np.array([seed, source], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def test_the_counter_is_step_lane_and_block() -> None:
    numbers = Numbers(7, TRANSIENT)
    scores = numbers.scores(range(3, 5), RANKS, step=2)
    for place, lane in enumerate((3, 4)):
        columns = scores[:, place * LANE : (place + 1) * LANE]
        for block in range(3):
            generator = _fresh(7, TRANSIENT, [0, 2, lane, block])
            rows = columns[block * BLOCK_RANKS : (block + 1) * BLOCK_RANKS]
            np.testing.assert_array_equal(rows, generator.standard_normal(rows.shape))
    uniforms = numbers.uniforms(range(1), range(5))
    np.testing.assert_array_equal(uniforms, _fresh(7, TRANSIENT, [0, 0, 0, 0]).random((5, LANE)))


@pytest.mark.parametrize("name", ["scores", "uniforms"])
def test_parts_are_those_of_the_whole(name: str) -> None:
    draw = getattr(Numbers(0, PERSISTENT), name)
    whole = draw(range(4), RANKS, 1)
    for start, stop in ((0, 3), (250, 260), (256, 300), (511, 522)):
        part = draw(range(2, 3), range(start, stop), 1)
        np.testing.assert_array_equal(part, whole[start:stop, 2 * LANE : 3 * LANE])


def test_seeds_and_sources_differ() -> None:
    given = range(1), range(4)
    found = [Numbers(seed, source).scores(*given) for seed in (0, 1) for source in (2056, 2057)]
    assert len({float(scores[0, 0]) for scores in found}) == 4


def test_they_are_normal_and_uniform() -> None:
    numbers = Numbers(1, TRANSIENT)
    scores = numbers.scores(range(50), range(1000))
    assert abs(scores.mean()) < 4 / scores.size**0.5
    assert scores.var() == pytest.approx(1, abs=0.01)
    uniforms = numbers.uniforms(range(50), range(1000))
    assert abs(uniforms.mean() - 0.5) < 4 * (1 / 12 / scores.size) ** 0.5
    # Neighbours, in rank and in draw, know nothing of each other.
    for one, other in ((scores[1:], scores[:-1]), (scores[:, 1:], scores[:, :-1])):
        assert abs((one * other).mean()) < 4 / one.size**0.5
