"""Atoms of a step have its moments."""

import numpy as np
import pytest

from service.model.distributions import Exponential, Law, LogNormal, Normal, Weibull, table_of
from service.model.laws.source import Source
from service.model.laws.step_atoms import atoms_of_step

TABLE = (1.0, 1.0, 1.5, 4.0)


def source(law: Law, cv: float) -> Source:
    return Source(law=law, shape=np.array([[cv], [0.0]]))


@pytest.mark.parametrize("law", [Normal, LogNormal, Exponential, Weibull])
def test_spread_with_spikes(law: Law) -> None:
    cv, probability, slowdown = 0.2, 0.1, 3.0
    atoms = atoms_of_step(source(law, cv), probability, slowdown)
    assert atoms.weight.sum() == pytest.approx(1, rel=1e-13)
    assert (atoms.weight * atoms.beyond_one).sum() == pytest.approx(0, abs=1e-13)
    mean = 1 + probability * (slowdown - 1)
    square = (1 + cv**2) * (1 + probability * (slowdown**2 - 1))
    assert atoms.sd == pytest.approx(np.sqrt(square - mean**2) / mean, rel=1e-9)
    assert atoms.finest == pytest.approx(cv / mean, rel=1e-9)
    assert not atoms.is_bounded


def test_of_a_table() -> None:
    law = table_of(TABLE)
    atoms = atoms_of_step(source(law, 0.0), 0.0, 1.0)
    assert atoms.is_bounded
    assert atoms.finest == 0
    assert atoms.sd == pytest.approx(law.cv, rel=1e-12)
    assert atoms.beyond_one.min() == pytest.approx(law.knots[0] - 1, abs=1e-3)


def test_of_nothing_but_spikes() -> None:
    atoms = atoms_of_step(None, 0.25, 3.0)
    assert atoms.beyond_one.tolist() == pytest.approx([-1 / 3, 1.0])
    assert atoms.weight.tolist() == [0.75, 0.25]
    assert atoms_of_step(None, 1.0, 3.0).sd == 0
    assert atoms_of_step(source(table_of((2.0, 2.0)), 0.0), 0.0, 1.0).sd == 0
