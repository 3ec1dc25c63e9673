"""Lines averaged over a factor that all GPUs share, against SciPy's distributions."""

import numpy as np
import pytest
from scipy import integrate, stats

from service.model.clusters.common_lines import with_common_in_lines
from service.model.exchange.lines import Lines, envelope
from service.model.exchange.shared_lines import SharedLines
from tests.model.brute_clusters import fleet, source

CV = 0.15
LAWS = {
    "normal": stats.norm(1, CV),
    "gamma": stats.gamma(1 / CV**2, scale=CV**2),
    "lognormal": stats.lognorm(np.log1p(CV**2) ** 0.5, scale=np.exp(-np.log1p(CV**2) / 2)),
}
H = envelope(np.array([[0.0], [0.4], [1.0]]), np.array([[0.9], [0.6], [-0.1]]))
"""Knots at 0.75 and 7/6."""


def shared(family: str) -> SharedLines:
    found = with_common_in_lines(fleet(common=source(family, CV), lines=H)).lines
    assert isinstance(found, SharedLines)
    return found


@pytest.mark.parametrize("family", LAWS)
@pytest.mark.parametrize("s", [0.3, 0.9, 1.1666, 1.4, 3.0])
def test_mean_slope_and_variance(family: str, s: float) -> None:
    law, lines = LAWS[family], shared(family)
    knots = [0.75 / s, 7 / 6 / s]

    def expected(power: int, less: float = 0.0) -> float:
        def at(c: float) -> float:
            value = max(0.9, 0.4 * c * s + 0.6, c * s - 0.1)
            return float((value - less) ** power * law.pdf(c))

        ends = (max(law.ppf(1e-15), 1e-9), law.isf(1e-15))
        inside = [knot for knot in knots if ends[0] < knot < ends[1]]
        return float(integrate.quad(at, *ends, points=inside, epsabs=1e-13, limit=200)[0])

    mean = expected(1)
    assert lines.value(np.array([s]))[0] == pytest.approx(mean, rel=1e-8)
    assert lines.variance_at(np.array([s]))[0] == pytest.approx(
        expected(2, mean), rel=1e-3, abs=1e-9
    )
    more, less = (lines.value(np.array([s + step]))[0] for step in (1e-5, -1e-5))
    slope = lines.slope_at(np.array([s]))[0]
    assert slope == pytest.approx((more - less) / 2e-5, rel=5e-6, abs=1e-9)


def test_parts_know_their_own_points() -> None:
    wide = fleet(common=source("gamma", CV), lines=H)
    lines = shared("gamma")
    again = lines.part(np.array([0, 0])).part(slice(1, 2))
    assert again.value(np.array([1.1])).tolist() == lines.value(np.array([1.1])).tolist()
    assert again.knots.tolist() == H.knots.tolist()
    # Nothing to average, and averaged already.
    assert with_common_in_lines(fleet(lines=H)).lines is H
    done = with_common_in_lines(wide)
    assert with_common_in_lines(done) is done


def test_a_point_with_fewer_lines_repeats_its_last() -> None:
    single = Lines(np.ones((2, 1)), np.full((2, 1), 0.5))
    lines = with_common_in_lines(fleet(common=source("gamma", CV), lines=single)).lines
    assert lines is not None
    assert lines.value(np.array([2.0]))[0] == pytest.approx(2.5, rel=1e-14)
    assert lines.slope_at(np.array([2.0]))[0] == 1
