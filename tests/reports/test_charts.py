import re

import pytest

from service.reports.charts import (
    COLOURS,
    NARROW,
    WIDE,
    Bar,
    Spec,
    Width,
    bars,
    page_bars,
    printable,
    shortened,
)
from tests.reports.drawn_charts import drawn, filled, marks, span, texts

ROWS = [
    Bar("Held", 0.0, 100.0, "100", "held"),
    Bar("Slow GPUs", 100.0, 60.0, "40 (40.0%)", "loss"),
    Bar("Useful compute", 0.0, 60.0, "60", "held", 50.0, 80.0),
]


def values(spec: Spec) -> list[Spec]:
    found: list[Spec] = spec["data"]["values"]
    return found


def test_bars_are_the_rows_in_their_order() -> None:
    spec = bars(ROWS, connected=True)
    assert spec["$schema"] == "https://vega.github.io/schema/vega-lite/v6.json"
    assert [row["label"] for row in values(spec)] == ["Held", "Slow GPUs", "Useful compute"]
    assert [(row["start"], row["end"]) for row in values(spec)] == [(0, 100), (100, 60), (0, 60)]
    # A waterfall: each bar but the last one leads to the next
    assert [row.get("next") for row in values(spec)] == [1, 2, None]
    assert [row.get("low") for row in values(spec)] == [None, None, 50.0]
    assert [layer["mark"]["type"] for layer in spec["layer"]] == [
        "bar",
        "rule",
        "rule",
        "rule",
        "tick",
        "tick",
        "text",
        "text",
    ]


def test_layers_are_only_those_that_are_needed() -> None:
    spec = bars(ROWS[:2])
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["bar", "rule", "text", "text"]
    assert "next" not in values(spec)[0]


def test_pairs_are_closer_to_each_other() -> None:
    assert bars(ROWS, is_paired=True)["height"]["step"] < bars(ROWS)["height"]["step"]


def test_the_telephone_gets_the_same_bars_on_less_space() -> None:
    wide, narrow = bars(ROWS, WIDE), bars(ROWS, NARROW)
    sizes = [
        spec["padding"]["left"] + spec["width"] + spec["padding"]["right"]
        for spec in (wide, narrow)
    ]
    # A telephone of 360 pixels shows 298 of them as they are: letters have their size there.
    assert sizes == [770, 296]
    assert [row["end"] for row in values(wide)] == [row["end"] for row in values(narrow)]


def test_labels_of_the_telephone_stand_above_their_bars() -> None:
    """Whole, where beside the bars they were cut off; also the first, and those of pairs."""
    long = "Waiting for an unlucky GPU"
    rows = [Bar(long, 0.0, 60.0, "60 (60.0%)", "loss"), Bar("", 0.0, 30.0, "30", "new")]
    specs = [bars(rows, NARROW, is_paired=is_paired) for is_paired in (False, True)]
    for spec, image in zip(specs, drawn(*specs), strict=True):
        assert texts(image)[0] == long
        top = spec["padding"]["top"]
        (label, *_), *_ = marks(image, "text")
        found = re.search(r"translate\(0,(-?[\d.]+)\)", label)
        assert found
        baseline = float(found[1])
        left, above, right, _ = span(marks(image, "rect")[0][0])
        assert -top <= baseline - NARROW.font < baseline < above
        assert (left, right) == (0, NARROW.plot)


def test_a_page_fills_the_same_bars_by_itself() -> None:
    rows = [
        {"row": 0, "label": "Held", "start": 0, "end": 100, "text": "100", "tone": "held"},
        {"row": 1, "label": "Slow", "start": 100, "end": 60, "text": "40", "tone": "loss"},
    ]
    rows[0]["next"] = 1
    rows[1] |= {"low": 30, "high": 50}
    for is_paired in (False, True):
        spec = page_bars(connected=True, is_paired=is_paired)
        (image,) = drawn(filled(spec, {"rows": rows}, {"to": 200}, width=400))
        # From 0 to 200, which the page says: not the rows
        assert [span(path)[::2] for path in marks(image, "rect")[0]] == [(0, 200), (120, 200)]
        # The page has asked for no range where rows are paired
        assert len(marks(image, "rect")) == (1 if is_paired else 3)
        assert texts(image) == ["Held", "Slow", "100", "40"]


def test_every_colour_means_one_thing() -> None:
    assert len(set(COLOURS.values())) == len(COLOURS)
    scale = bars(ROWS)["layer"][0]["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        tone: COLOURS[tone] for tone in ("held", "nominal", "loss", "gain", "past", "new")
    }


def test_long_labels_are_shortened_between_characters() -> None:
    assert shortened("Slow GPUs", 6) == "Slow GPUs"
    assert shortened("Slow GPUs of one node", 7) == "Slow GPUs…"
    # Wide characters take more room
    assert shortened("中文中文", 5.3) == "中文中文"
    assert shortened("中文中文", 5) == "中文中…"
    assert shortened("🧮🧮🧮", 3.7) == "🧮🧮…"
    assert shortened("हिन्दी", 6) == "हिन्दी"


def test_what_is_joined_stays_one_picture_or_letter() -> None:
    family, half_space = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0645\u06cc\u200c\u0634"
    assert printable(f"{family} {half_space}") == f"{family} {half_space}"
    # Between others they would only hide what a name is
    assert printable("a\u200db \u200d\u4e2d\u200d\u200d\u4e2d\u200d") == "ab \u4e2d\u4e2d"
    assert shortened(f"{family}{family}", 6) == f"{family}…"
    assert shortened("ke\u0301ke\u0301", 2.5) == "k…"
    assert shortened("ke\u0301ke\u0301", 3) == "ke\u0301…"


@pytest.mark.parametrize("width", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("letter", ["W", "m", "i", "中", "A", "7", "🧮"])
def test_no_label_is_wider_than_its_room(width: Width, letter: str) -> None:
    # Widths of DejaVu Sans, the widest of usual fonts, in the size of the font
    wide = {"W": 0.99, "m": 0.974, "i": 0.278, "中": 1.0, "A": 0.684, "7": 0.636, "🧮": 1.3}
    drawn = values(bars([Bar(letter * 99, 0, 1, letter * 99, "loss")], width))[0]
    for field, room in (("label", width.label), ("text", width.text)):
        shown = str(drawn[field])
        assert shown.startswith(letter)
        assert shown.endswith("…")
        assert width.font * (wide[letter] * (len(shown) - 1) + 1.0) <= room


def test_what_cannot_be_printed_is_left_out() -> None:
    assert printable("a\u202e\u0007b\n") == "ab"
    # French groups digits by a space that does not break
    assert printable("256\u202f922 (17,4\u00a0%)") == "256\u202f922 (17,4\u00a0%)"
    assert shortened("a\u202eb", 2) == "ab"
    labels = [row["label"] for row in values(bars([Bar("x" * 99, 0, 1, "y" * 99, "loss")]))]
    assert labels == ["x" * 25 + "…"]
