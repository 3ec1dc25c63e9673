"""Few values are worked out by fewer calls: they are what many values are."""

import numpy as np
import pytest

from service.model.fleet import Spikes
from service.model.slowest import mixing, rank_law
from service.model.slowest.mixing import mixed_blocks
from service.model.slowest.rank_law import RankLaw, product_law
from tests.model.fleets_for_tests import source

SIZES = np.array([[8.0, 0.0], [7.0, 1.0], [0.0, 8.0]])
PLACES = np.linspace(-0.1, 0.9, 300)[:, np.newaxis]


def ranks(*, has_spikes: bool) -> RankLaw:
    spikes = Spikes(probability=np.array([0.01]), slowdown=np.array([1.5]))
    law = product_law([source(("normal", 0.05)), source(("gamma", 0.02))])
    log_mean = np.log(np.array([[1.0], [1 / 0.7]]))
    return law._replace(log_mean=log_mean, spikes=spikes if has_spikes else None)


@pytest.mark.parametrize("has_spikes", [False, True])
def test_survivals(monkeypatch: pytest.MonkeyPatch, *, has_spikes: bool) -> None:
    law = ranks(has_spikes=has_spikes)
    few = law.survivals(PLACES)
    monkeypatch.setattr(rank_law, "_TILE", 1)
    many = law.survivals(PLACES)
    assert few.tobytes() == many.tobytes()
    assert few.shape == (2, 300, 1)
    # GPUs of the slow class exceed a place more often.
    assert (few[1] >= few[0]).all()


def test_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    node, kinds = source(("normal", 0.01)), ranks(has_spikes=True).kinds()
    few = np.concatenate(
        [mixed_blocks(node, kinds, SIZES, PLACES[row : row + 1]) for row in range(300)], axis=1
    )
    monkeypatch.setattr(mixing, "_TILE", 1)
    many = mixed_blocks(node, kinds, SIZES, PLACES)
    np.testing.assert_allclose(few, many, rtol=1e-13, atol=1e-300)
