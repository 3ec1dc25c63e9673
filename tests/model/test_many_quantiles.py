import numpy as np
import pytest

from service.model.distributions import LAWS, MAX_CV_NORMAL, Distribution, Gamma, Normal
from service.model.many_quantiles import QuantileTable
from service.model.uniforms import upper_uniforms

CVS = (1e-12, 1e-6, 0.002, 0.05, 0.3, 0.7, 1.0)
EVERY = [(law, cv) for law in LAWS for cv in CVS if law is not Normal or cv <= MAX_CV_NORMAL]


@pytest.mark.parametrize(("law", "cv"), EVERY)
def test_the_table_holds_the_laws_own_quantiles(law: type[Distribution], cv: float) -> None:
    tails = np.geomspace(2.0**-53, 0.5, 3000)
    q = np.concatenate([upper_uniforms(1, 1, 0, 20_000), tails, 1 - tails])
    if law is Gamma and cv < 1e-3:
        # SciPy's own inverse is up to 0.3 standard deviations off below there.
        q = q[q < 1 - 1e-5]
    shape = np.full((1, 1), cv)
    found = QuantileTable(law, shape).upper_quantile(q)
    # Where a normal factor passes through 0, its error is one of the whole.
    np.testing.assert_allclose(found, law.upper_quantile(q, shape), rtol=1e-10, atol=1e-14)
