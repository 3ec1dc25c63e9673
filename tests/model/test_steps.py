"""What a step with overlap takes where one draw for each GPU is all there is, by SciPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario
from service.model.step_lines import step_lines_of
from tests.model.nullable import OF_SPREAD

Floats = npt.NDArray[np.float64]

NUM_GPUS = 64
HIGH = 1e6
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
TAIL = 1 + np.sqrt(1 + 1 / 0.3**2)
LAWS: dict[str, tuple[dict[str, Any], Any]] = {
    "normal": ({"kind": "normal", "cv": 0.05}, stats.norm(1, 0.05)),
    # A tail whose part above the interval of integration counts.
    "pareto": ({"kind": "pareto", "cv": 0.3}, stats.pareto(TAIL, scale=(TAIL - 1) / TAIL)),
    "empirical": (
        {"kind": "empirical", "quantiles": [0.8, 1.2], "allow_extrapolation": True},
        stats.uniform(0.8, 0.4),
    ),
}
FEW = {"kind": "buckets", "num_buckets": 8}
MANY = {"kind": "buckets", "bucket_shares": [32, 16, 8, 4, 2, 1], "contention_fraction": 0.2}
# Latency, which every bucket pays, keeps the lines of unequal buckets apart.
LATENCY_US = 40


def expected_ms(law: Any, step_ms: Callable[[Floats], Floats], knots: Floats) -> float:
    """E[step(slowest)]: step at the lower end, and its rise times P(slowest > t) from there on.

    Gauss and Legendre's rule between the places where step(t), or the law, bends.
    """
    low = law.ppf(1e-11 ** (1 / NUM_GPUS))
    bends = np.array([*knots, *law.support()])
    bends = bends[(low < bends) & (bends < HIGH)]
    ends = np.unique(
        np.concatenate([np.linspace(low, 2.5, 400), np.geomspace(2.5, HIGH, 60), bends])
    )
    half = np.diff(ends)[:, np.newaxis] / 2
    t = ends[:-1, np.newaxis] + half * (1 + NODES)
    slope = (step_ms(t * (1 + 1e-7)) - step_ms(t * (1 - 1e-7))) / (2e-7 * t)
    rise = slope * -np.expm1(NUM_GPUS * np.log1p(-law.sf(t)))
    return float(step_ms(low) + np.sum(half * WEIGHTS * rise))


@pytest.mark.parametrize("overlap", [FEW, MANY], ids=["few lines", "many lines"])
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("allreduce_ms", [150, 260])
def test_a_step_with_overlap(name: str, overlap: dict[str, Any], allreduce_ms: float) -> None:
    source, law = LAWS[name]
    scenario = {
        "num_gpus": NUM_GPUS,
        "load_ms": 10,
        "compute_ms": 300,
        "communication": {
            "kind": "ring",
            "message_bytes": allreduce_ms * 1e6 * 64 / 126,
            "link": {"latency_us": LATENCY_US, "bandwidth_gigabytes_per_s": 1},
        },
        "overlap": overlap,
        "variability": {"transient": source},
    }
    columns = columns_of(decode_scenario(scenario))
    lines = step_lines_of(columns).step
    assert (lines.knots.shape[0] > 3) == (overlap is MANY)

    def step_ms(slowest: Floats) -> Floats:
        serial_ms = allreduce_ms + 126 * LATENCY_US / 1000
        return 10 + serial_ms + 300 * lines.value(np.asarray(slowest)[..., np.newaxis])[..., 0]

    found = evaluate(columns).columns
    assert found["step_mean_ms"][0] == pytest.approx(
        expected_ms(law, step_ms, lines.knots[:, 0]), rel=1e-9
    )
    for place, probability in enumerate((0.5, 0.95, 0.99)):
        slowest = law.ppf(probability ** (1 / NUM_GPUS))
        name_of = ("step_p50_ms", "step_p95_ms", "step_p99_ms")[place]
        assert found[name_of][0] == pytest.approx(step_ms(slowest), rel=1e-9)
    assert all(np.isfinite(found[column][0]) for column in OF_SPREAD - {"spread_method"})
