import re

import pytest

from service.reports.chart_lines import history, loss_curve
from tests.reports.drawn_charts import Rows, drawn, filled, marks, span, texts

NOTE = {"key": 0, "align": "left"}


@pytest.fixture(scope="module")
def images() -> list[str]:
    curve: dict[str, Rows] = {
        "rows": [{"x": 8, "y": 0.9}, {"x": 64, "y": 0.7}],
        "draws": [{"x": 8, "y": 0.8}],
        "ranges": [],
        "notes": [NOTE | {"x": 16, "text": "16 GPUs"}],
    }
    runs: dict[str, Rows] = {
        "rows": [{"x": 100, "y": 1000}, {"x": 200, "y": 3000}],
        "ranges": [{"x": 100, "low": 500, "high": 2000}, {"x": 200, "low": 2000, "high": 4000}],
        "notes": [NOTE | {"x": 200, "text": "revision 2"}],
    }
    ends = {"x_from": 8, "x_to": 128, "x_ticks": [8, 128], "y_format": ".2~%"}
    days = {"x_from": 100, "x_to": 200, "x_ticks": [100, 200], "x_labels": ["1 Nov", "2 Nov"]}
    return drawn(
        filled(
            loss_curve(),
            curve,
            ends | {"y_from": 1, "y_to": 0.6, "is_share": True},
            width=200,
            height=100,
        ),
        filled(history(), runs, days | {"y_to": 4000}, width=200, height=100),
    )


def places(marks: list[str]) -> list[tuple[float, float]]:
    found = re.findall(r"translate\(([^,]+),([^)]+)\)", " ".join(marks))
    return [(round(float(x), 6), round(float(y), 6)) for x, y in found]


def test_sizes_are_powers_of_two_and_efficiency_is_written_as_what_is_lost(
    images: list[str],
) -> None:
    ((line,),) = marks(images[0], "line")
    # 50 px a doubling; 0.9 and 0.7 of an axis from 1 down to 0.6
    assert span(line) == (0, 25, 150, 75)
    (points, draws) = marks(images[0], "symbol")
    assert places(points) == [(0, 75), (150, 25)]
    assert places(draws) == [(0, 50)]
    assert texts(images[0]) == ["8", "128", "0%", "10%", "20%", "30%", "40%", "16 GPUs"]


def test_runs_have_their_days_their_ranges_and_notes(images: list[str]) -> None:
    ((line,),) = marks(images[1], "line")
    assert span(line) == (0, 25, 200, 75)
    ((area,),) = marks(images[1], "area")
    assert span(area) == (0, 0, 200, 87.5)
    ((note,),) = marks(images[1], "rule")
    assert 'translate(200,0)" x2="0" y2="100"' in note
    assert texts(images[1])[:2] == ["1 Nov", "2 Nov"]
    assert texts(images[1])[-1] == "revision 2"
