import numpy as np
import pytest

from service.calibration.reading import folding
from service.calibration.reading.folding import Folding, Numbering


def test_rows_fold_as_a_dictionary_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "_LEAST_PENDING", 50)
    rng = np.random.default_rng(5)
    found = Folding({"sum": np.add, "least": np.minimum})
    sums: dict[int, float] = {}
    least: dict[int, float] = {}
    for size in (0, 1, 30, 40, 7, 100, 0, 3):
        keys, values = rng.integers(0, 40, size), rng.integers(-9, 9, size).astype(np.float64)
        found.add(keys, {"sum": values, "least": values})
        for key, value in zip(keys.tolist(), values.tolist(), strict=True):
            sums[key] = sums.get(key, 0.0) + value
            least[key] = min(least.get(key, value), value)
    keys, columns = found.found()
    assert keys.tolist() == sorted(sums)
    assert columns["sum"].tolist() == [sums[key] for key in sorted(sums)]
    assert columns["least"].tolist() == [least[key] for key in sorted(sums)]


def test_numbers_keep() -> None:
    numbering = Numbering(10)
    assert numbering.of(np.array([30, 10, 30])).tolist() == [1, 0, 1]
    assert numbering.of(np.array([20, 10])).tolist() == [2, 0]
    assert numbering.values().tolist() == [10, 30, 20]
    assert len(numbering) == 3
