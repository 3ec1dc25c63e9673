import numpy as np

from service.model.recursion.scores import (
    BLOCK_STEPS,
    LANE,
    PERSISTENT,
    PLACES,
    SPIKES,
    TRANSIENT,
    cluster_scores,
    cluster_uniforms,
    draw_scores,
    draw_uniforms,
)


def drawn(ranks: int, lanes: int, seed: int = 5, block: int = 3) -> tuple[np.ndarray, np.ndarray]:
    scores = np.empty((ranks, BLOCK_STEPS, lanes * LANE))
    uniforms = np.empty_like(scores)
    draw_scores(seed, TRANSIENT, block, scores)
    draw_uniforms(seed, SPIKES, block, uniforms)
    return scores, uniforms


def test_a_rank_keeps_its_numbers_when_the_cluster_and_the_replications_grow() -> None:
    for small, large in zip(drawn(9, 1), drawn(70, 3), strict=True):
        assert np.array_equal(small, large[:9, :, :LANE])
    few, many = cluster_scores(1, PERSISTENT, 1, 5), cluster_scores(1, PERSISTENT, 4, 50)
    assert np.array_equal(few, many[:5, :LANE])
    few, many = cluster_uniforms(1, PLACES, 1, 5), cluster_uniforms(1, PLACES, 4, 50)
    assert np.array_equal(few, many[:5, :LANE])


def test_the_numbers_are_philox_words_of_seed_source_block_and_lane() -> None:
    scores, uniforms = drawn(4, 2)
    key = np.array([5, TRANSIENT], dtype=np.uint64)
    generator = np.random.Generator(np.random.Philox(key=key, counter=[0, 3, 1, 0]))
    expected = generator.standard_normal((4, BLOCK_STEPS, LANE))
    assert np.array_equal(scores[..., LANE:], expected)
    assert ((uniforms >= 0) & (uniforms < 1)).all()


def test_seeds_sources_blocks_and_lanes_are_independent() -> None:
    numbers = [drawn(500, 2)[0][..., :LANE], drawn(500, 2)[0][..., LANE:]]
    numbers += [drawn(500, 1, seed=6)[0], drawn(500, 1, block=4)[0]]
    correlations = np.corrcoef([some.ravel() for some in numbers])
    # 32 000 numbers each: 5 standard errors are .028.
    assert (np.abs(correlations - np.eye(4)) < 0.028).all()
