import numpy as np
import pytest

from service.calibration.fit import fit
from service.calibration.options import CalibrationOptions
from service.calibration.short_cells import short_cells
from tests.calibration.compute_tables import factors_of, observed_of_matrix, timings_of

DEFAULT = CalibrationOptions()


@pytest.mark.parametrize("value", [3.0, 30.0])
def test_a_number_cut_short_is_left_out(value: float) -> None:
    cells = 3 * factors_of((60, 8), rank=0.02, step=0.01, rest=0.02)
    alone = fit(timings_of(cells), DEFAULT)
    cells[59, 7] = value
    found = fit(timings_of(cells), DEFAULT)
    (left_out,) = found.source.left_out
    assert left_out.count == 1
    (remark,) = found.warnings
    assert remark.code == "short_cells"
    assert f"{value:g} ms of rank 7 at step 59" in remark.detail
    assert found.source.missing_cells == 1
    assert found.healthy.transient_cv is not None
    assert alone.healthy.transient_cv is not None
    spread = alone.healthy.transient_cv.value
    assert found.healthy.transient_cv.value == pytest.approx(spread, rel=0.02)


def test_many_are_named_in_part() -> None:
    cells = factors_of((100, 8), rank=0.02, step=0.01, rest=0.02)
    cells[np.arange(10, 80, 10), np.arange(7)] /= 5
    detail = fit(timings_of(cells), DEFAULT).warnings[0].detail
    assert detail.startswith("7 compute times are under 1/3")
    assert "; …)" in detail


def test_what_a_wide_law_brings_stays() -> None:
    rng = np.random.default_rng(3)
    wide = np.exp(0.6 * rng.standard_normal((200, 16)))
    assert not short_cells(observed_of_matrix(wide)).any()
    often = factors_of((60, 8), rank=0.02, step=0.01, rest=0.02)
    often[20:40, 3] /= 4
    assert not short_cells(observed_of_matrix(often)).any()
