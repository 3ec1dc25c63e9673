import numpy as np
import pytest

from service.model.recursion.estimates import estimate, standard_error


def test_without_controls_it_is_the_mean() -> None:
    values = np.array([1.0, 2.0, 4.0, 5.0, 1.5, 0.5, 3.0, 3.0])
    found = estimate(values, [np.zeros(8)])
    assert found.mean == pytest.approx(values.mean())
    # Student's t of 7 degrees of freedom has the variance 7 / 5.
    assert found.widening == pytest.approx((7 / 5) ** 0.5)
    expected = values.std(ddof=1) / 8**0.5 * (7 / 5) ** 0.5
    assert standard_error(found.deviations, found.widening) == pytest.approx(expected)


def test_what_a_control_explains_is_taken_out() -> None:
    control = np.array([1.0, -2.0, 0.5, 0.7, -1.0, 0.3, 2.0, -0.2])
    found = estimate(3 + 0.5 * control, [control])
    assert found.mean == pytest.approx(3, rel=1e-14)
    assert standard_error(found.deviations, found.widening) < 1e-14


def test_errors_are_honest() -> None:
    rng = np.random.default_rng(0)
    deviations = []
    for _ in range(4000):
        controls = [rng.standard_normal(16), rng.standard_normal(16)]
        values = rng.standard_normal(16) + controls[0] + 2 * controls[1]
        found = estimate(values, controls)
        deviations.append(found.mean / standard_error(found.deviations, found.widening))
    assert abs(np.std(deviations) - 1) < 0.05
    assert abs(np.mean(deviations)) < 0.06
