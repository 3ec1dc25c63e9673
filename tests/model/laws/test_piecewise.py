"""Polynomials on panels against the function that they stand for."""

import numpy as np
import pytest

from service.model.laws.piecewise import Pieces, nodes_of, through

EDGES = np.array([0.0, 0.3, 1.0, 2.5])


def rising() -> Pieces:
    x = nodes_of(EDGES)
    return through(EDGES, x + np.sin(x) / 2)


def test_values_and_slopes() -> None:
    x = np.linspace(0, 2.5, 101)
    value, slope = rising().with_slope(x)
    assert value == pytest.approx(x + np.sin(x) / 2, abs=1e-11)
    assert rising().at(x) == pytest.approx(value, abs=1e-15)
    assert slope == pytest.approx(1 + np.cos(x) / 2, abs=1e-9)


def test_beyond_the_ends_the_values_stay() -> None:
    assert rising().at(np.array([-5.0, 9.0])) == pytest.approx(rising().at(EDGES[[0, -1]]))


def test_inverses() -> None:
    x = np.linspace(0, 2.5, 77).reshape(7, 11)
    assert rising().inverse(rising().at(x)) == pytest.approx(x, abs=1e-13)


def test_plateaus_have_inverses_within() -> None:
    flat = through(EDGES, np.floor(nodes_of(EDGES) / 0.3).clip(0, 1))
    found = flat.inverse(np.array([0.5, 1.0]))
    assert ((found >= 0.25) & (found <= 2.5)).all()
