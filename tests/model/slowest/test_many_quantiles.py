import numpy as np
import pytest

from service.model.distributions import EMPIRICAL, FAMILIES, law_of, table_of
from service.model.slowest.many_quantiles import QuantileTable
from service.model.uniforms import upper_uniforms
from tests.model.reference import LARGEST_CVS

CVS = (1e-12, 1e-6, 0.002, 0.05, 0.3, 0.7, 1.0, 3.0)
SKEWS = (0.001, 0.2, 2.0, 4.0)
EVERY = [
    (kind, cv, 0.0)
    for kind in FAMILIES[1:EMPIRICAL]
    for cv in CVS
    if kind != "shifted_gamma" and cv <= LARGEST_CVS.get(kind, 1.0)
] + [("shifted_gamma", min(cv, skew / 2), skew) for cv in (1e-12, 0.05, 1) for skew in SKEWS]


@pytest.mark.parametrize(("kind", "cv", "skew"), EVERY)
def test_the_table_holds_the_laws_own_quantiles(kind: str, cv: float, skew: float) -> None:
    law, shape = law_of(FAMILIES.index(kind)), np.array([[cv], [skew]])
    tails = np.geomspace(2.0**-53, 0.5, 3000)
    q = np.concatenate([upper_uniforms(1, 1, 0, 20_000), tails, 1 - tails])
    if kind in {"gamma", "shifted_gamma"} and max(cv, skew / 2) < 1e-3:
        # SciPy's own inverse is up to 0.3 standard deviations off below there.
        q = q[q < 1 - 1e-5]
    found = QuantileTable(law, shape).upper_quantile(q)
    # Where a normal factor passes through 0, its error is one of the whole.
    np.testing.assert_allclose(found, law.upper_quantile(q, shape), rtol=1e-10, atol=1e-14)


def test_a_table_of_observed_quantiles_is_asked_itself() -> None:
    law, shape = table_of((1.0, 2.0, 2.0, 9.0)), np.zeros((2, 1))
    q = np.concatenate([upper_uniforms(1, 1, 0, 1000), 2.0 ** -np.arange(1.0, 53)])
    found = QuantileTable(law, shape).upper_quantile(q)
    assert np.array_equal(found, law.upper_quantile(q, shape))
