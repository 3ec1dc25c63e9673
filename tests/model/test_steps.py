"""What a step with overlap takes where one draw for each GPU is all there is, by SciPy."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario
from service.model.step_lines import step_lines_of
from tests.model.nullable import OF_SPREAD

NUM_GPUS = 64
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


def expected_ms(law: Any, step_ms: Callable[[float], float]) -> float:
    """E[step(slowest)]: step at the lower end, and its rise times P(slowest > t) from there on."""
    low = float(law.ppf(1e-11 ** (1 / NUM_GPUS)))

    def rise(t: float) -> float:
        slope = (step_ms(t * (1 + 1e-7)) - step_ms(t * (1 - 1e-7))) / (2e-7 * t)
        return float(slope * -np.expm1(NUM_GPUS * np.log1p(-law.sf(t))))

    ends = np.unique(np.concatenate([np.linspace(low, 2.5, 400), np.geomspace(2.5, 1e6, 60)]))
    parts = [integrate.quad(rise, a, b)[0] for a, b in itertools.pairwise(ends)]
    return step_ms(low) + float(np.sum(parts))


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

    def step_ms(slowest: float) -> float:
        serial_ms = allreduce_ms + 126 * LATENCY_US / 1000
        return float(10 + serial_ms + 300 * lines.value(np.array([slowest]))[0])

    found = evaluate(columns).columns
    assert found["step_mean_ms"][0] == pytest.approx(expected_ms(law, step_ms), rel=2e-6)
    for place, probability in enumerate((0.5, 0.95, 0.99)):
        slowest = law.ppf(probability ** (1 / NUM_GPUS))
        name_of = ("step_p50_ms", "step_p95_ms", "step_p99_ms")[place]
        assert found[name_of][0] == pytest.approx(step_ms(float(slowest)), rel=1e-9)
    assert all(np.isfinite(found[column][0]) for column in OF_SPREAD - {"spread_method"})
