"""Transforms of masses at any places against the plain sum."""

import numpy as np
import pytest

from service.model.laws.nonuniform import transform_of


@pytest.mark.parametrize("num_modes", [17, 256, 3000])
def test_transforms_are_sums(num_modes: int) -> None:
    rng = np.random.default_rng(0)
    place, mass = rng.uniform(-3, 3, 400), rng.random(400)
    turns = np.arange(num_modes)[:, np.newaxis] * place
    expected = np.exp(2j * np.pi * turns) @ mass
    assert transform_of(place, mass, num_modes) == pytest.approx(expected, abs=1e-9)


def test_a_mass_at_the_start_has_no_phase() -> None:
    assert transform_of(np.zeros(1), np.ones(1), 50) == pytest.approx(np.ones(50), abs=1e-12)
