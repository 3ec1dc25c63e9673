import re
from collections.abc import Callable

import numpy as np
import pytest

from service.calibration.fit import fit
from service.calibration.options import CalibrationOptions
from service.calibration.refusals import TimingsRefusedError
from service.calibration.timings import FloatArray
from tests.calibration.compute_tables import factors_of, timings_of

DEFAULT = CalibrationOptions()


def table(num_ranks: int = 8) -> FloatArray:
    return np.asarray(3 * factors_of((60, num_ranks), rank=0.03, step=0.01, rest=0.02))


def put(place: tuple[slice | int, slice | int], factor: float) -> Callable[[FloatArray], None]:
    def change(cells: FloatArray) -> None:
        cells[place] *= factor

    return change


def write(place: tuple[slice | int, slice | int], value: float) -> Callable[[FloatArray], None]:
    def change(cells: FloatArray) -> None:
        cells[place] = value

    return change


ALL = slice(None)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (write((ALL, 2), 65_535), "implausible_units", "rank 2 took 2.* no slow GPU"),
        (put((ALL, 2), 1_000), "implausible_units", "rank 2 took .* the factor of a unit"),
        (put((ALL, 2), 0.001), "implausible_units", "rank 2 took 0.00.* the factor of a unit"),
        (put((ALL, slice(4)), 1_000), "implausible_units", "ranks 0, 1, 2, 3 took"),
        (put((slice(30, 60), ALL), 1_000), "implausible_units", r"\(30 in all\) took 10?[0-9]*"),
        (put((slice(20, 25), ALL), 1_000), "implausible_units", "steps 20, 21, 22, 23, 24 took"),
        (put((slice(30, 40), ALL), 60), "implausible_units", "more than 50 times"),
        (put((slice(0, 30), ALL), 60), "implausible_units", "more than 50 times"),
        (write((5, 2), 1e9), "sentinel_value", "1 of 480 .* 1e.09 ms of rank 2 at step 5"),
        (put((slice(20, 40), 3), 1_000), "sentinel_value", "20 of 480"),
        (put((7, 3), 0.001), "sentinel_value", "1 of 480"),
        (write((slice(5, 8), 2), 9_999), "sentinel_value", "3 compute times are exactly 9999 ms"),
    ],
)
def test_refused_with_the_place_and_the_factor(
    change: Callable[[FloatArray], None], code: str, words: str
) -> None:
    cells = table()
    change(cells)
    with pytest.raises(TimingsRefusedError, match=words) as refusal:
        fit(timings_of(cells), DEFAULT)
    assert refusal.value.faults[0].code == code


@pytest.mark.parametrize("place", [(ALL, 1), (4, 1)])
def test_of_two_ranks_the_mean_is_neither(place: tuple[slice | int, int]) -> None:
    cells = table(2)
    cells[place] *= 1_000
    with pytest.raises(TimingsRefusedError, match="rank 1") as refusal:
        fit(timings_of(cells), DEFAULT)
    assert refusal.value.faults[0].code in ("implausible_units", "sentinel_value")


def test_a_minute_of_compilation_is_no_unit() -> None:
    cells = table()
    cells[0] = 60_000
    found = fit(timings_of(cells), DEFAULT)
    assert [remark.code for remark in found.warnings] == ["steps_apart"]


def test_slowdowns_above_ten_are_a_remark() -> None:
    slow = table()
    slow[:, 2] *= 12
    fast = table()
    fast[:, 2] /= 12
    spiked = table()
    spiked[[5, 20, 40], 2] *= [20, 25, 30]
    for cells, words in (
        (slow, "rank 2 takes 1[12]"),
        (fast, "rank 2 takes 0.08"),
        (spiked, "3 single cells take 2"),
    ):
        remarks = fit(timings_of(cells), DEFAULT).warnings
        (detail,) = (one.detail for one in remarks if one.code == "implausible_slowdown")
        assert re.search(words, detail)
    twice = table()
    twice[:, 2] *= 9
    assert fit(timings_of(twice), DEFAULT).warnings == []
