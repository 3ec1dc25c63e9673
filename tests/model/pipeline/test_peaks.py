import csv
from pathlib import Path

import pytest

from service.model.pipeline import SCHEDULES
from service.model.pipeline.peaks import peak_microbatches_in_flight
from service.model.pipeline.plans import plan_of
from tests.model.pipeline.pipeline_sizes import NAMES, valid_sizes

TABLE = Path(__file__).parents[1] / "data" / "pipeline_schedules.csv"
ROWS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))


def test_peaks_of_published_implementations() -> None:
    sizes = {
        (
            row["schedule"],
            int(row["stages"]),
            int(row["microbatches"]),
            int(row["chunks_per_stage"]),
        ): float(row["peak_microbatches_in_flight"])
        for row in ROWS
    }
    assert len(sizes) > 80
    for size, peak in sizes.items():
        assert peak_microbatches_in_flight(plan_of(*size)).max() == pytest.approx(peak, rel=1e-12)


def test_peaks_of_each_stage() -> None:
    """GPipe M; 1F1B min(M, P - s); interleaved min(MV, 2(P-1-s) + (V-1)P + 1)/V; ZB-H2 2(P-s)-1."""
    peaks = {
        name: peak_microbatches_in_flight(plan_of(name, 4, 16, chunks)).tolist()
        for name, chunks in (("gpipe", 1), ("1f1b", 1), ("interleaved_1f1b", 2), ("zb_h2", 1))
    }
    assert peaks == {
        "gpipe": [16, 16, 16, 16],
        "1f1b": [4, 3, 2, 1],
        "interleaved_1f1b": [5.5, 4.5, 3.5, 2.5],
        "zb_h2": [7, 5, 3, 1],
    }


@pytest.mark.parametrize("name", NAMES)
def test_peaks_by_counting(name: str) -> None:
    for stages, microbatches, chunks in list(valid_sizes(name, 5, 11, 3))[::4]:
        found = peak_microbatches_in_flight(plan_of(name, stages, microbatches, chunks))
        for rank, order in enumerate(SCHEDULES[name].order(stages, microbatches, chunks)):
            held = peak = 0
            for kind in order[:, 0].tolist():
                held += kind in {0, 4}
                peak = max(peak, held)
                held -= kind in {1, 2, 4}
            assert held == 0
            assert found[rank] == pytest.approx(peak / chunks, rel=1e-12)
