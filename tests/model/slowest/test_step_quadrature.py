"""Steps that reach far down: few GPUs, of whose factors some are next to nothing."""

import numpy as np
import pytest
from scipy import stats

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario


@pytest.mark.parametrize(("num_gpus", "backup"), [(2, 1), (4, 2)])
@pytest.mark.parametrize(
    ("kind", "cv", "within"),
    [
        ("normal", 0.14, 1e-8),
        ("normal", 0.16, 1e-8),
        ("normal", 0.2, 1e-6),
        ("normal", 0.3, 1e-6),
        ("gamma", 0.5, 1e-9),
        ("gamma", 1.0, 1e-9),
    ],
)
def test_a_step_that_waits_for_the_faster_half(
    kind: str, cv: float, within: float, num_gpus: int, backup: int
) -> None:
    """E of an order statistic, P(X_(k) <= t) by the beta distribution, against Gauss-Legendre."""
    law = stats.norm(1, cv) if kind == "normal" else stats.gamma(cv**-2, scale=cv**2)
    node, weight = np.polynomial.legendre.leggauss(2000)
    highest = law.isf(1e-15)
    t = (node + 1) / 2 * highest
    above = stats.beta.sf(law.cdf(t), num_gpus - backup, backup + 1)
    document = {
        "num_gpus": num_gpus,
        "compute_ms": 1,
        "variability": {"transient": {"kind": kind, "cv": cv}},
        "synchronization": {"kind": "backup_workers", "count": backup},
    }
    found = evaluate(columns_of(decode_scenario(document)), with_spread=False).columns
    expected = weight @ above * highest / 2
    assert found["step_mean_ms"][0] == pytest.approx(expected, rel=within)
