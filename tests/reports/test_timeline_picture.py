import pytest

from service.reports.timeline_picture import timeline_legend, timeline_picture, timeline_table
from tests.reports.timelines import shown


def test_a_character_is_as_long_as_the_shortest_operation() -> None:
    assert timeline_picture(shown("gpipe", (2, 2, 1)), width=80).splitlines() == [
        "stage 0 01...aabb",
        "stage 1 .01aabb..",
    ]
    assert timeline_picture(shown("1f1b", (2, 2, 1), load_ms=7), width=80).splitlines() == [
        "stage 0 01..aa.bb",
        "stage 1 .0aa1bb..",
    ]


def test_weight_gradients_are_capitals_and_pairs_have_a_sign() -> None:
    split = shown("zb_h1", (2, 2, 1))
    assert timeline_picture(split, width=80).splitlines() == ["stage 0 01.aAbB", "stage 1 .0a1bAB"]
    assert "capitals" in timeline_legend(split)
    pairs = shown("dualpipe", (2, 4, 1))
    picture = timeline_picture(pairs, width=80)
    assert "+++" in picture
    assert "+: forward of one" in timeline_legend(pairs)
    plain = timeline_legend(shown("gpipe", (2, 2, 1)))
    assert "capitals" not in plain
    assert "+" not in plain


def test_the_legend_says_that_characters_repeat() -> None:
    assert "repeat" not in timeline_legend(shown("gpipe", (2, 10, 1)))
    assert "digits repeat after 10 micro-batches, letters after 26" in timeline_legend(
        shown("gpipe", (2, 11, 1))
    )


def test_microbatches_count_on_after_the_last_character() -> None:
    rows = timeline_picture(shown("gpipe", (1, 28, 1)), width=200).splitlines()
    assert rows == [
        "stage 0 "
        + "0123456789" * 2
        + "01234567"
        + "".join(2 * letter for letter in "abcdefghijklmnopqrstuvwxyzab")
    ]


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_long_pass_is_made_to_fit(width: int) -> None:
    timeline = shown("1f1b", (4, 60, 1), pipeline={"forward_ms": [1, 2, 1.5, 1]})
    rows = timeline_picture(timeline, width=width).splitlines()
    assert {len(row) for row in rows} == {width}
    # The share of dots is that of idle time, as well as so few characters can say it.
    for row, stage in zip(rows, timeline.stages, strict=True):
        share = row.count(".") / (width - len("stage 0 "))
        assert share == pytest.approx(stage.idle_ms / timeline.makespan_ms, abs=0.15)


def test_the_table_has_a_line_a_stage() -> None:
    slow = [{"count": 1, "speed_fraction": 0.5, "placement": 1}]
    lines = timeline_table(shown("1f1b", (2, 2, 1), slow_groups=slow)).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["0", "1", "6.00", "9.00", "60.00", "2"],
        ["1", "2", "12.00", "3.00", "20.00", "1"],
    ]
