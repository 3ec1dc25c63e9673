"""What follows from the random numbers of steps is taken out of them."""

from typing import Any

import numpy as np
import pytest

from service.model.laws.law import Floats
from service.model.pipeline.cluster_parts import fleeting_part
from service.model.pipeline.luck import Luckless, without_luck
from service.model.pipeline.rounds import Rounds, repeated_rounds
from tests.model.pipeline.drawn_by_hand import steps_by_hand
from tests.model.pipeline.piped_fleets import cluster_of

ROUNDS, LANES = 4, 32
SPIKES: dict[str, Any] = {"spikes": (0.02, 2.0)}
LASTING: dict[str, Any] = {"persistent": ("normal", 0.02)}


def _same(step: Floats) -> Floats:
    return step


def _drawn(given: dict[str, Any], seed: int = 3) -> tuple[Rounds, Luckless]:
    cluster = cluster_of(**given)
    rounds = repeated_rounds(cluster, seed, LANES, ROUNDS)
    return rounds, without_luck(rounds, fleeting_part(cluster), seed, _same)


def _mean(found: Luckless) -> float:
    return float(found.values.mean() + found.expected.mean())


@pytest.mark.parametrize(
    "given",
    [
        {"transient": ("normal", 0.1)},
        {"transient": ("normal", 0.1), **SPIKES},
        {"common": ("normal", 0.1), "replica": ("normal", 0.1)},
        SPIKES,
    ],
)
def test_less_noise_and_the_same_mean(given: dict[str, Any]) -> None:
    rounds, found = _drawn({**LASTING, **given})
    inside = rounds.step - rounds.step.mean(axis=0)
    left = found.values - found.values.mean(axis=0)
    assert left.std() < 0.5 * inside.std()
    by_hand = steps_by_hand({**LASTING, **given}, 20_000)
    error = by_hand.std() * (1 / 20_000 + 1 / rounds.step.size) ** 0.5
    assert abs(_mean(found) - by_hand.mean()) < 4 * error


def test_nothing_is_left_where_nothing_lasts() -> None:
    rounds, found = _drawn({"transient": ("normal", 0.1), "common": ("normal", 0.1)})
    np.testing.assert_allclose(found.values, 0, atol=1e-12)
    assert _mean(found) == pytest.approx(rounds.step.mean(), rel=0.01)


def test_spikes_are_known_exactly() -> None:
    # Alone they are all there is: the mean does not depend on the seed.
    means = [_mean(_drawn(SPIKES, seed)[1]) for seed in (1, 2)]
    assert means[0] == pytest.approx(means[1], rel=1e-12)


@pytest.mark.parametrize("other", [{}, {"transient": ("normal", 0.05)}])
def test_spikes_that_no_draw_has_add_what_they_do_alone(other: dict[str, Any]) -> None:
    rare, without = {"spikes": (1e-6, 1000.0)}, {**LASTING, **other}
    rounds, found = _drawn({**without, **rare})
    plain = repeated_rounds(cluster_of(**without), 3, LANES, ROUNDS).step
    assert rounds.step.tolist() == plain.tolist()
    # Each of six GPUs, in 1e-6 of the steps, works 1 000 times as long.
    work = cluster_of().busy
    added = 2e-6 * 999 * work.sum()
    assert _mean(found) - plain.mean() == pytest.approx(added, rel=0.02)
    assert found.error == pytest.approx(0.1 * added, rel=0.02)


def test_what_is_averaged() -> None:
    cluster = cluster_of(**LASTING, **SPIKES)
    rounds = repeated_rounds(cluster, 3, LANES, ROUNDS)
    found = without_luck(rounds, fleeting_part(cluster), 3, lambda step: 1 / step)
    assert _mean(found) == pytest.approx(float((1 / rounds.step).mean()), rel=0.02)
    assert found.values.std() < 0.5 * (1 / rounds.step).std()
