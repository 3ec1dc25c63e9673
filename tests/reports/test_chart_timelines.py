import pytest

from service.reports.chart_timelines import (
    GPU_KINDS,
    OPERATION_KINDS,
    gpu_timeline,
    pipeline_timeline,
)
from service.reports.charts import COLOURS, Spec
from tests.reports.drawn_charts import Rows, drawn, filled, marks, span, texts

ROWS = [
    {"key": 0, "row": 10, "label": "GPU 7", "text": "70 %", "is_marked": True},
    {"key": 1, "row": 30, "label": "GPU 1", "text": "100 %", "is_marked": False},
]
SEGMENTS = [
    {"key": "a", "row": 0, "kind": "compute", "start": 10, "end": 60, "top": 2, "bottom": 18},
    {"key": "b", "row": 1, "kind": "wait", "start": 50, "end": 60, "top": 22, "bottom": 38},
]
NOTHING: dict[str, Rows] = {name: [] for name in ("rows", "segments", "bands", "marked", "names")}


def timeline(spec: Spec, datasets: dict[str, Rows], begin: float = 0, end: float = 100) -> Spec:
    signals = {"row_height": 20, "begin": begin, "end": end}
    return filled(spec, NOTHING | datasets, signals, width=200, height=40)


@pytest.fixture(scope="module")
def images() -> list[str]:
    operation = {"key": "0.0", "row": 0, "kind": "backward_weight", "start": 40, "end": 80}
    bands = [
        {"row": row, "kind": "compute", "start": 0, "end": end}
        for row, end in ((0, 50), (20, 30), (40, 30))
    ]
    return drawn(
        timeline(
            gpu_timeline(),
            {
                "rows": ROWS,
                "segments": SEGMENTS,
                "marked": [{"row": 0, "start": 0, "end": 100, "top": 0, "bottom": 20}],
            },
        ),
        timeline(gpu_timeline(), {"bands": bands}),
        timeline(
            pipeline_timeline(),
            {
                "segments": [operation | {"top": 0, "bottom": 20}],
                "names": [{"key": "0.0", "row": 10, "middle": 60, "name": "12"}],
            },
            begin=40,
            end=90,
        ),
    )


def test_segments_stand_where_their_times_are(images: list[str]) -> None:
    segments, frame = marks(images[0], "rect")
    # 2 px a millisecond, 20 px a row
    assert [span(path) for path in segments] == [(20, 2, 120, 18), (100, 22, 120, 38)]
    assert [("--held" in path, "--loss" in path) for path in segments] == [
        (True, False),
        (False, True),
    ]
    # The slowest has a frame and bold letters: not a colour alone.
    assert [span(path) for path in frame] == [(0, 0, 200, 20)]
    assert 'font-weight="700" fill="var(--ink)">GPU 7<' in images[0]
    assert 'font-weight="400" fill="var(--ink)">GPU 1<' in images[0]
    assert texts(images[0]) == ["0 ms", "50 ms", "100 ms", "GPU 7", "GPU 1", "70 %", "100 %"]


def test_thin_rows_are_one_shape_a_kind(images: list[str]) -> None:
    assert marks(images[1], "rect") == []
    (shape,) = [path for path in images[1].split("<path") if 'fill="var(--held)"' in path]
    # Down at 0, and up again: the second row at 30 ms (60 px), the first at 50 ms
    assert ' d="M0,0L0,20L0,20L0,40L0,40L60,40L60,40L60,20L100,20L100,0Z"' in shape


def test_a_part_of_the_time_is_shown_with_names(images: list[str]) -> None:
    ((segment,),) = marks(images[2], "rect")
    assert span(segment) == (0, 0, 160, 20)
    assert "var(--weight)" in segment
    assert "12" in texts(images[2])
    assert 'transform="translate(80,' in next(
        text for layer in marks(images[2], "text") for text in layer if ">12<" in text
    )


@pytest.mark.parametrize("kinds", [GPU_KINDS, OPERATION_KINDS])
def test_every_kind_has_a_colour_of_the_definition(kinds: dict[str, str]) -> None:
    assert set(kinds.values()) <= set(COLOURS)
