from typing import Any

import numpy as np
import pytest

from service.model.distributions import Gamma, LogNormal, Normal, Table
from service.model.laws.exponential import Exponential
from service.model.laws.pareto import Pareto
from service.model.laws.shifted_gamma import ShiftedGamma
from service.model.laws.source import Source
from service.model.laws.weibull import Weibull
from service.model.recursion.score_factors import ScoreFactors

LAWS: list[tuple[Any, list[float]]] = [
    (Normal, [0.05, 0.1]),
    (LogNormal, [0.05, 1.0]),
    (Gamma, [0.05, 0.9]),
    (ShiftedGamma, [0.1, 0.5]),
    (Exponential, [0.2, 1.0]),
    (Weibull, [0.1, 1.0]),
    (Pareto, [0.1, 2.0]),
    (Table((1.0, 1.5, 1.7, 4.0)), [0.3, 0.3]),
]


@pytest.mark.parametrize(("law", "cv"), LAWS)
def test_factors_are_the_quantiles_of_the_scores(law: Any, cv: list[float]) -> None:
    source = Source(law=law, shape=np.array([cv, [1.5, 1.5]]))
    scores = np.random.default_rng(0).standard_normal((6, 7, 8))
    found = np.empty((6, 7, 2, 8))
    ScoreFactors(source).write(scores, found)
    for point in range(2):
        shape = source.shape[:, [point]]
        expected = law.at_score(scores[..., np.newaxis], shape)[..., 0]
        np.testing.assert_allclose(found[:, :, point], expected, rtol=1e-8)


def test_no_factor_is_negative() -> None:
    source = Source(law=Normal, shape=np.array([[0.3], [0.0]]))
    found = np.empty((1, 1, 2))
    ScoreFactors(source).write(np.array([[-5.0, 1.0]]), found)
    assert found.tolist() == [[[0.0, 1.3]]]
