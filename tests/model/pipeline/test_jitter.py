"""Factors of single operations, and the largest of several."""

import numpy as np
import pytest
from scipy import special, stats

from service.model.distributions import Empirical, LogNormal, law_and_shape
from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.pipeline.jitter import Jitter, LargestFactors
from service.model.pipeline.plans import plan_of
from service.model.pipeline.random_numbers import LANE
from tests.model.fleets_for_tests import source

PLAN = plan_of("1f1b", 3, 4, 1)
TABLE = Empirical(quantiles=(0.8, 1.0, 1.3))


def _table() -> Source:
    law, shape = law_and_shape(TABLE)
    return Source(law=law, shape=shape)


@pytest.mark.parametrize("kind", ["normal", "lognormal", "gamma"])
@pytest.mark.parametrize("size", [2, 8, 1000])
def test_the_largest_by_its_own_quantile(kind: str, size: int) -> None:
    jitter = source((kind, 0.2))
    sd = np.log(1.04) ** 0.5
    law = {
        "normal": stats.norm(1, 0.2),
        "lognormal": stats.lognorm(sd, scale=np.exp(-sd * sd / 2)),
        "gamma": stats.gamma(25, scale=1 / 25),
    }[kind]
    scores = np.linspace(-6, 7.5, 101)
    found = LargestFactors(jitter, size).of(scores)
    # P(all are at most x) = Phi(z), by its logarithm from both sides.
    below = size * np.log1p(-law.sf(found))
    np.testing.assert_allclose(below, special.log_ndtr(scores), rtol=1e-6)


def test_the_largest_of_a_table() -> None:
    jitter = _table()
    scores = np.array([-2.0, 0.0, 1.5])
    found = LargestFactors(jitter, 2).of(scores)
    upper = 1 - special.ndtr(scores) ** 0.5
    expected = jitter.law.upper_quantile(upper[:, np.newaxis], jitter.shape)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_one_and_largest_and_slowest_have_their_laws() -> None:
    jitter = Jitter(source(("lognormal", 0.3)), 0, PLAN)
    own = np.random.default_rng(0).uniform(0.8, 1.2, (3, 2, LANE))
    found: dict[str, list[Floats]] = {"one": [], "largest": [], "slowest": []}
    for replica in range(300):
        found["one"].append(jitter.of_one(0, 5, replica))
        found["largest"].append(jitter.of_largest(0, 5, replica, 2))
        found["slowest"].append(jitter.of_slowest(0, 5, replica, own))
    sd = np.log1p(0.09) ** 0.5
    law = stats.lognorm(sd, scale=np.exp(-sd * sd / 2))
    one = np.array(found["one"])
    assert one.shape == (300, PLAN.num_operations, LANE)
    assert stats.kstest(one.ravel(), law.cdf).pvalue > 1e-3
    largest = np.array(found["largest"]).ravel()
    assert stats.kstest(largest, lambda x: law.cdf(x) ** 2).pvalue > 1e-3
    # One operation's GPUs are as slow as those of its stage and draw.
    slowest = np.array(found["slowest"])
    (rows,) = np.nonzero(PLAN.stage == 1)
    of_draw = own[1, :, 3]
    expected = slowest[:, rows, 3].ravel()
    both = stats.kstest(expected, lambda x: law.cdf(x / of_draw[0]) * law.cdf(x / of_draw[1]))
    assert both.pvalue > 1e-3


def test_many_operations_are_those_of_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    jitter = Jitter(source(("gamma", 0.3)), 0, PLAN)
    own = np.ones((3, 2, 1))
    whole = jitter.of_slowest(1, 2, 3, own)
    monkeypatch.setattr("service.model.pipeline.jitter._AT_ONCE", 5 * 2 * LANE)
    np.testing.assert_array_equal(jitter.of_slowest(1, 2, 3, own), whole)


def test_operations_steps_lanes_and_replicas_are_independent() -> None:
    jitter = Jitter(Source(law=LogNormal, shape=np.array([[0.3], [0.0]])), 0, PLAN)
    places = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    drawn = np.array([np.log(jitter.of_one(*place)).ravel() for place in places])
    assert (np.abs(np.corrcoef(drawn)[np.triu_indices(4, 1)]) < 4 / drawn.shape[1] ** 0.5).all()
    np.testing.assert_array_equal(jitter.of_one(0, 0, 1), jitter.of_one(0, 0, 1))
