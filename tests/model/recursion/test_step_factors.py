from dataclasses import replace

import numpy as np

from service.model.fleet import Fleet
from service.model.recursion.scores import BLOCK_STEPS, LANE
from service.model.recursion.step_factors import StepFactors
from tests.model.fleets_for_tests import one_fleet


def factors(fleet: Fleet, ranks: int = 8, blocks: int = 1, lanes: int = 1) -> np.ndarray:
    """(steps, ranks, replications)."""
    drawn = StepFactors(fleet, 7, lanes, ranks)
    found = []
    for block in range(blocks):
        drawn.draw(block)
        to = np.empty((BLOCK_STEPS, ranks, 1, lanes * LANE))
        drawn.write(slice(0, ranks), slice(0, BLOCK_STEPS), to)
        found.append(to[:, :, 0])
    return np.concatenate(found)


def test_a_source_that_is_switched_off_leaves_the_others_as_they_are() -> None:
    fleet = one_fleet(
        [(8, 1)],
        transient=("lognormal", 0.1),
        replica=("lognormal", 0.2),
        common=("lognormal", 0.3),
        spikes=(0.2, 2.0),
        tensor_parallel_size=4,
    )
    none = replace(fleet, transient=None, replica=None, common=None, spikes=None)
    alone = [
        factors(replace(none, **{name: getattr(fleet, name)}))
        for name in ("transient", "replica", "common", "spikes")
    ]
    np.testing.assert_allclose(factors(fleet), np.prod(alone, axis=0), rtol=1e-13)
    transient, replica, common, spikes = alone
    assert (factors(none) == 1).all()
    assert np.ptp(transient, axis=1).min() > 0
    # Groups of four ranks share a replica's, all share the common one.
    assert np.array_equal(replica, np.repeat(replica[:, ::4], 4, axis=1))
    assert np.ptp(common, axis=1).max() == 0
    assert set(np.unique(spikes)) == {1.0, 2.0}


def test_parts_of_ranks_and_steps_are_those_of_the_whole() -> None:
    fleet = one_fleet(
        [(8, 1)], transient=("gamma", 0.1), replica=("gamma", 0.2), tensor_parallel_size=2
    )
    whole = factors(fleet)
    drawn = StepFactors(fleet, 7, 1, 8)
    drawn.draw(0)
    part = np.empty((3, 4, 1, LANE))
    drawn.write(slice(2, 6), slice(4, 7), part)
    assert np.array_equal(part[:, :, 0], whole[4:7, 2:6])


def test_autocorrelation() -> None:
    fleet = one_fleet([(8, 1)], transient=("normal", 0.1))
    sticky = replace(fleet, autocorrelation=np.array([0.8]))
    scores = (factors(sticky, blocks=40, lanes=8) - 1) / 0.1
    # 164 000 scores, of which about a ninth are independent.
    assert abs(scores.std() - 1) < 0.03
    for lag in (1, 2, 9):
        found = (scores[lag:] * scores[:-lag]).mean()
        assert abs(found - 0.8**lag) < 0.04
    # Stationary from the first step on.
    first = (factors(sticky, lanes=64)[0] - 1) / 0.1
    assert abs(first.std() - 1) < 0.05
    # Without the transient source there is nothing to correlate.
    assert (factors(replace(sticky, transient=None)) == 1).all()
